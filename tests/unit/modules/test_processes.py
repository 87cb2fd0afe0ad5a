"""Tests work in several processes: the same results in order, the first error, and no process left behind."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import batchcast
from batchcast.cli.main import cli
from batchcast.cli.options import workers_for
from batchcast.errors import BatchcastError, InputError, UsageError
from batchcast.events.machine_size import machine_of_log
from batchcast.processes import Task, in_processes, under_bars

MEASURED = {"seconds", "kernel_s"}


class Half:
    """A user's own method, as a notebook defines it."""

    def predict(self, job: Any, at: Any) -> float:
        return float(max(1.0, job.req_time / 2)) if 0 < job.req_time < 1e9 else 3600.0

    def observe(self, event: Any, at: Any) -> None:
        pass


def fails(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("workers", [1, 2, 3, 9])
def test_answers_are_in_the_order_of_the_tasks(workers: int) -> None:
    heard: list[int] = []
    tasks = [partial(pow, k, 2) for k in range(7)]
    assert in_processes(tasks, workers, heard.append) == [k * k for k in range(7)]
    assert heard == [1, 2, 3, 4, 5, 6, 7]
    assert in_processes([], workers) == []


def test_they_are_processes_of_their_own_and_gone_afterwards() -> None:
    numbers = set(in_processes([os.getpid] * 6, 2))
    assert os.getpid() not in numbers
    assert len(numbers) <= 2
    assert not multiprocessing.active_children()


def test_signals_of_the_parent_are_not_theirs() -> None:
    here, there = os.pipe()
    os.set_blocking(there, False)
    signal.set_wakeup_fd(there)
    handler = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        for found in in_processes([lambda: (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT))] * 2, 2):
            assert found == (signal.SIG_DFL, signal.SIG_IGN)
        assert set(in_processes([lambda: signal.set_wakeup_fd(-1)] * 2, 2)) == {-1}
    finally:
        signal.set_wakeup_fd(-1)  # another test's descriptor may be closed by now
        signal.signal(signal.SIGTERM, handler)
        os.close(here)
        os.close(there)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_first_error_is_raised_as_it_is(workers: int) -> None:
    tasks = [os.getpid, partial(fails, InputError("no job", hint="more")), partial(fails, UsageError("later"))]
    with pytest.raises(InputError, match="no job") as found:
        in_processes(tasks, workers)
    assert found.value.hint == "more"
    assert not multiprocessing.active_children()


def test_other_errors_a_killed_process_and_what_cannot_be_sent_are_said() -> None:
    with pytest.raises(RuntimeError, match=r"ZeroDivisionError in a separate process.*(?s:.)*in fails"):
        in_processes([os.getpid, partial(fails, ZeroDivisionError("x"))], 2)
    with pytest.raises(BatchcastError, match="ended before it returned a result"):
        in_processes([os.getpid, lambda: os.kill(os.getpid(), signal.SIGKILL)], 2)
    with pytest.raises(RuntimeError, match="cannot be sent"):
        in_processes([os.getpid, lambda: lambda: 1], 2)
    with pytest.raises(UsageError, match="workers: 0"):
        in_processes([os.getpid], 0)
    assert not multiprocessing.active_children()


def test_a_bar_for_each_task_or_one_for_all() -> None:
    seen: list[tuple[str, int | None]] = []

    @contextmanager
    def bar(label: str, total: int | None) -> Iterator[Any]:
        seen.append((label, total))
        yield lambda done: None

    tasks = [Task(name, 5, lambda tick, name=name: name.upper()) for name in ("a", "b")]
    assert under_bars("both", tasks, 1, bar) == under_bars("both", tasks, 2, bar) == ["A", "B"]
    assert seen == [("a", 5), ("b", 5), ("both", 2)]


@pytest.fixture(scope="module")
def log() -> batchcast.Trace:
    return batchcast.read_trace(batchcast.demo_path())[:1500]


def plain(rows: Any) -> list[dict[str, Any]]:
    """Rows without values measured on this machine, with a text for NaN, which equals nothing."""
    return [{key: repr(value) for key, value in row.items() if key not in MEASURED} for row in rows]


@pytest.mark.long
def test_an_evaluation_is_the_same_with_any_number_of_processes(log: batchcast.Trace) -> None:
    methods = {"kernel": None, "last_2": None, "half": Half}
    one, two, four = (
        batchcast.evaluate(log, predictor=methods, policy="easy,forecast", seed=3, workers=n) for n in (1, 2, 4)
    )
    for other in (two, four):
        assert plain(other.results()) == plain(one.results())
        assert other.warnings() == one.warnings()
        for mine, theirs in zip(other.outcomes, one.outcomes, strict=True):
            assert (mine.policy, mine.predictor) == (theirs.policy, theirs.predictor)
            np.testing.assert_array_equal(mine.schedule.start_time, theirs.schedule.start_time)
        for name, points in one.scores.points.items():
            np.testing.assert_array_equal(other.scores.points[name], points)


@pytest.mark.long
def test_variants_are_the_same_with_any_number_of_processes(log: batchcast.Trace) -> None:
    machine = machine_of_log(log)
    variants = ["nodes=-25%", "limits=forecast"]
    one, two = (batchcast.whatif(log, machine, variants, replicates=3, seed=2, workers=n) for n in (1, 2))
    assert plain(two.rows) == plain(one.rows)
    assert one.rows[1]["replicated"]["mean_wait_s"].low <= one.rows[1]["replicated"]["mean_wait_s"].high
    assert plain(two.groups) == plain(one.groups)
    assert (two.notes, repr(two.validity.row())) == (one.notes, repr(one.validity.row()))


def said(*words: object) -> Any:
    done = CliRunner().invoke(cli, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "words",
    [
        ("wait", "--predictor", "recent_wait,recent_wait:k=9,scheduler_replay"),
        pytest.param(("evaluate", "--predictor", "last_2", "--policy", "easy"), marks=pytest.mark.long),
    ],
)
def test_verbs_print_the_same_with_any_number_of_processes(words: tuple[str, ...], tmp_path: Path) -> None:
    verb, *options = words
    where = ["-o", tmp_path / "report"] if verb == "evaluate" else []
    one, two = (
        said(verb, batchcast.demo_path(), "--first", 1500, *options, *where, "--json", "--workers", n) for n in (1, 2)
    )
    assert plain(two["results"]) == plain(one["results"])
    assert two["warnings"] == one["warnings"]


@pytest.mark.long
def test_a_study_is_the_same_with_any_number_of_processes(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(
        'policies = ["easy"]\npredictors = ["requested", "last_2"]\nreplicates = 1\n'
        f'[[log]]\npath = "{batchcast.demo_path()}"\nname = "demo"\n'
    )
    one, two = tmp_path / "one", tmp_path / "two"
    said("sweep", study, "-o", one, "--workers", 1, "--json")
    said("sweep", study, "-o", two, "--workers", 2, "--json")
    measured = ["task_s", "host"]
    assert batchcast.read_sweep(two).table.drop(measured).equals(batchcast.read_sweep(one).table.drop(measured))
    assert plain(batchcast.read_sweep(two).rows) == plain(batchcast.read_sweep(one).rows)


def test_large_logs_use_every_processor_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(3)))
    assert [workers_for(None, 50_000), workers_for(None, 500), workers_for(1, 50_000)] == [3, 1, 1]
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(128)))
    assert workers_for(None, 50_000) == 8
