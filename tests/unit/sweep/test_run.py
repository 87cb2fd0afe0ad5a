"""Tests that a study continues where it stopped after a task, a process or the study itself failed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from batchcast.errors import UsageError
from batchcast.sweep import Task, read_study, results, tasks_of
from batchcast.sweep.compare import compare
from batchcast.sweep.dataset import OF_A_RUN, Dataset
from batchcast.sweep.run import local, run
from batchcast.sweep.task import Failed, attempt
from batchcast.trace import demo_path

STUDY = f"""
seed = 1
replicates = 2
policies = ["easy", "easy-sjbf"]
predictors = ["requested", "actual"]
[[log]]
path = "{demo_path()}"
name = "demo"
first = 400
"""


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    return tasks_of(read_study(STUDY))


def kept(tasks: list[Task], folder: Path, **more: Any) -> tuple[Dataset, Any]:
    """The tasks performed on two processes, with stored results."""
    dataset = Dataset(folder)
    dataset.declare(tasks, STUDY)
    with local(2) as pool:
        return dataset, run(tasks, pool, dataset.keep, **more)


def dies_once_met(task: Task) -> Mapping[str, Any] | Failed:
    """Like `attempt`, but a process that meets one certain task dies, as when memory runs out."""
    if task.policy == "easy-sjbf" and task.replicate == 1 and task.predictor == "actual":
        os._exit(9)
    return attempt(task)


def test_a_process_that_dies_costs_its_own_task_and_no_other(tasks: list[Task], tmp_path: Path) -> None:
    said: list[Failed] = []
    dataset, failed = kept(tasks, tmp_path, perform=dies_once_met, tell=said.append)
    assert [one.label for one in said] == ["demo, replicate 1, easy-sjbf with actual"]
    assert failed == said
    assert "process of this task ended early" in said[0].why
    assert len(dataset.finished_keys()) == len(tasks) - 1


def test_a_task_that_fails_is_said_and_the_rest_goes_on(tmp_path: Path) -> None:
    late = 'period = [{name = "all"}, {name = "never", from = "2200-01-01"}]\n'
    both = tasks_of(read_study(late + STUDY.replace("replicates = 2", "replicates = 0")))
    ticks: list[int] = []
    dataset, failed = kept(both, tmp_path, tick=ticks.append)
    assert {one.label.split(",")[1] for one in failed} == {" never"}
    assert len(failed) == len(dataset.finished_keys()) == 4
    assert ticks[-1] == 8
    assert "widen the selection" in failed[0].why


def test_what_is_kept_is_the_same_in_any_order_and_cut(tasks: list[Task], tmp_path: Path) -> None:
    first, _ = kept(tasks, tmp_path / "first")
    first.fold_all()
    second, _ = kept(tasks[7:], tmp_path / "second")
    assert second.finished_keys() == {task.key for task in tasks[7:]}
    second.fold_all()
    kept(tasks[:8][::-1], tmp_path / "second")
    second.declare(tasks, STUDY)
    ours, theirs = (results(tmp_path / name).drop(OF_A_RUN) for name in ("first", "second"))
    assert ours.equals(theirs), "one task of the two parts ran twice, and counts once"
    assert ours["key"].to_list() == [task.key for task in tasks]


def test_a_killed_process_leaves_no_half_result(tasks: list[Task], tmp_path: Path) -> None:
    dataset, _ = kept(tasks[:2], tmp_path)
    place = tmp_path / "results" / "log=demo"
    (place / ".half.parquet.1.part").write_bytes(b"PAR1")
    with dataset.alone():
        assert len(dataset.finished_keys()) == 2
        assert not list(place.glob("*.part"))
        with pytest.raises(UsageError, match="another sweep"), Dataset(tmp_path).alone():
            pass


def test_folding_keeps_every_row(tasks: list[Task], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("batchcast.sweep.dataset.FOLDED", 5)
    dataset, _ = kept(tasks, tmp_path)
    files = list((tmp_path / "results" / "log=demo").iterdir())
    assert sorted(path.name.startswith("many-") for path in files).count(True) == len(tasks) // 5
    assert dataset.finished_keys() == {task.key for task in tasks}


def test_the_comparison_pairs_replicates_and_jobs(tasks: list[Task], tmp_path: Path) -> None:
    kept(tasks, tmp_path)
    table = results(tmp_path)
    rows = {(row["policy"], row["predictor"]): row for row in compare(table, "easy, requested")}
    assert len(rows) == 4
    assert "against" not in rows["easy", "requested"]
    mine = rows["easy-sjbf", "actual"]
    by = {(r, p, k): v for r, p, k, v in
          table.select("replicate", "policy", "predictor", "mean_bounded_slowdown").iter_rows()}  # fmt: skip
    less = [by[k, "easy-sjbf", "actual"] - by[k, "easy", "requested"] for k in (1, 2)]
    change = mine["replicated"]["mean_bounded_slowdown"]
    assert change.value == pytest.approx(sum(less) / 2)
    assert min(less) <= change.low <= change.high
    on_itself = by[0, "easy-sjbf", "actual"] - by[0, "easy", "requested"]
    assert mine["differences"]["mean_bounded_slowdown"].value == pytest.approx(on_itself)
    assert any(row["frontier"] for row in rows.values())
    with pytest.raises(UsageError, match="accepted: easy, requested; easy, actual"):
        compare(table, "easy")
