"""Tests that a user's own predictor or policy is accepted, or rejected with a sentence that names what is accepted."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest

import batchcast
from batchcast import testing
from batchcast.errors import BatchcastError, UsageError


def half(job):
    return job.req_time / 2


def at_most_a_day(job):
    return max(1.0, job.req_time) if job.req_time < 86400.0 else 86400.0  # NaN too


def with_state(job, at):
    return job.req_time / 2


def in_turn(queue, machine, now):
    for job in queue:
        if not machine.fits(job):
            return
        yield job


def shortest(now, submit, procs, planned, wait):
    return planned


class Alone:
    def start(self, queue, machine, now):
        return queue[0]


class Misspelt:
    def start(self, queue, machine, now):
        return [job for job in queue if machine.free_processors >= job.procs]


class Later(batchcast.Policy):
    def start(self, queue, machine, now):
        return []


@pytest.fixture(scope="module")
def log() -> batchcast.Trace:
    n = 40
    return batchcast.Trace.from_arrays(
        {
            "submit_time": np.arange(n) * 30.0,
            "run_time": 60.0 + 10.0 * (np.arange(n) % 7),
            "req_time": np.full(n, 600.0),
            "req_procs": 1 + np.arange(n) % 4,
        },
        procs_total=8,
    )


@pytest.mark.parametrize("function", [half, with_state, lambda job: job.req_time / 2], ids=["job", "job, at", "lambda"])
def test_a_function_of_a_job_is_a_predictor(log, function) -> None:
    assert set(batchcast.replay(log, {"half": function})["half"].points.tolist()) == {300.0}
    planned = batchcast.simulate(log, "easy", function, total=8).planned_run_time
    assert set(planned.tolist()) == {300.0}


def test_a_function_of_a_job_passes_the_checks_and_is_found_by_name(log) -> None:
    assert len(testing.check_predictor(at_most_a_day)) == 8
    with pytest.raises(AssertionError, match=r"job 5 \(req_time=nan, .*the point is nan"):
        testing.check_predictor(half)
    assert set(batchcast.replay(log, f"{__name__}:half")[f"{__name__}:half"].points.tolist()) == {300.0}
    found = batchcast.evaluate(log, predictor=[half], policy=[in_turn, "fcfs"])
    waits = {(row["policy"], row["predictor"]): row["mean_wait_s"] for row in found.schedule_rows()}
    assert waits["in_turn", "half"] == waits["fcfs", "half"]


def test_a_function_of_queue_machine_and_now_is_a_policy(log) -> None:
    own, kernel = (batchcast.simulate(log, policy, "requested", total=8) for policy in (in_turn, "fcfs"))
    np.testing.assert_array_equal(own.start_time, kernel.start_time)
    assert len(testing.check_policy(in_turn)) == 5


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (shortest, r"shortest takes five numbers.*\n.*Policy\(order=shortest\)"),
        (Later, "Later is a Policy, settings of a compiled scheduler .accepted: a plain class with start"),
        (["easy", "fcfs"], r"a list of 2 \(accepted: one policy\)\n.*evaluate compares several"),
        ("eazy", "did you mean easy"),
    ],
)
def test_what_is_no_policy_is_told_what_is(log, policy, said) -> None:
    with pytest.raises(UsageError, match=f"(?s){said}"):
        batchcast.simulate(log, policy, total=8)


def test_a_job_answered_alone_and_a_name_that_is_not_there_are_explained(log) -> None:
    with pytest.raises(BatchcastError, match="alone: yield it, or return a list"):
        batchcast.simulate(log, Alone, total=8)
    with pytest.raises(BatchcastError, match=r"a Machine has: .*fits.*free, .*shadow"):
        batchcast.simulate(log, Misspelt, total=8)
    with pytest.raises(BatchcastError, match=r"'run_time'.*a JobRequest has: .*req_time"):
        batchcast.replay(log, {"peeks": lambda job, at: job.run_time})


@pytest.mark.parametrize("call", [batchcast.simulate, lambda log: batchcast.replay(log, "last_2"), batchcast.limits])
def test_a_path_or_a_frame_in_place_of_a_log_is_said(log, call) -> None:
    with pytest.raises(UsageError, match=r"trace: a str \(accepted: a Trace(?s:.*)read_trace reads a file"):
        call("demo.swf.gz")
    with pytest.raises(UsageError, match="trace: a dict"):
        call({"run_time": [1.0]})


def test_numbers_and_machines_of_another_kind_are_said(log) -> None:
    with pytest.raises(UsageError, match="total: '8'"):
        batchcast.simulate(log, "easy", total="8")
    with pytest.raises(UsageError, match="machine: a Policy"):
        batchcast.whatif(log, batchcast.Policy(), ["nodes=+10%"])


def test_a_misspelt_column_is_said_where_the_right_one_lacks() -> None:
    for wrong, right in {"runtime": "run_time", "Submit_Time": "submit_time", "submit": "submit_time"}.items():
        with pytest.raises(UsageError, match=rf"columns: '{wrong}' \(accepted: {right}\)"):
            batchcast.Trace.from_arrays({wrong: [1.0]})
    both = batchcast.Trace.from_arrays({"submit_time": [0.0], "submit": [3.0]})
    assert both["submit"].tolist() == [3.0]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda log: batchcast.Policy(ordering="saf"), "Policy got an unexpected keyword argument 'ordering'.*order?"),
        (
            lambda log: batchcast.evaluate(log, method="last_2"),
            "evaluate got .*accepted: trace, predictor",
        ),
        (lambda log: batchcast.replay(log), "replay missing a required argument: 'predictor'"),
        (lambda log: batchcast.limits(log, 0.1), "limits too many positional arguments"),
    ],
)
def test_an_argument_that_is_not_taken_is_said_with_those_that_are(call, said):
    with pytest.raises(batchcast.errors.UsageError, match=said):
        call(batchcast.read_trace(batchcast.demo_path())[:50])


def test_a_log_says_its_columns_where_it_is_asked_for_one_that_it_lacks():
    log = batchcast.read_trace(batchcast.demo_path())[:50]
    with pytest.raises(AttributeError, match=r"columns: job_id, .*; did you mean log\['req_time'\]"):
        _ = log.walltime
    assert not hasattr(log, "walltime")
    assert pickle.loads(pickle.dumps(log)).run_time.tolist() == log.run_time.tolist()


def test_evaluate_takes_a_predictor_by_place_as_replay_does():
    log = batchcast.read_trace(batchcast.demo_path())[:300]
    assert [row["predictor"] for row in batchcast.evaluate(log, "last_2", policy="easy").accuracy_rows()] == [
        "requested", "last_2",
    ]  # fmt: skip


def test_a_predictor_that_cannot_be_pickled_is_said_in_a_sentence():
    with pytest.raises(AssertionError, match="at the top of a module, no lambda"):
        batchcast.testing.check_predictor(lambda job: 60.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\nx / 0\n", "ZeroDivision.*ours_that_fails.py, line 2"),
        ("def (\n", r"SyntaxError: invalid syntax \(ours_that_fails.py, line 1\)$"),
    ],
)
def test_a_module_that_fails_as_it_is_imported_is_said_with_its_own_line(tmp_path, monkeypatch, log, text, said):
    (tmp_path / "ours_that_fails.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BatchcastError) as caught:
        batchcast.replay(log, "ours_that_fails:Mine")
    assert re.search(said, str(caught.value))
