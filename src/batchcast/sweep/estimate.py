"""What a study will cost before it runs: tasks, core-hours, and the time on so many workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import NoAnswer
from .task import Task

Seconds = Mapping[tuple[str, str, str], float]


def measured_seconds(folder: str | Path) -> Seconds:
    """The mean seconds of the finished tasks of a folder by log, policy and predictor; empty where there are none."""
    from .dataset import results

    try:
        table = results(folder, lists=False)
    except NoAnswer:
        return {}
    means = table.select("log", "policy", "predictor", "task_s").group_by("log", "policy", "predictor").mean()
    return {(log, policy, predictor): seconds for log, policy, predictor, seconds in means.iter_rows()}


def estimate(
    tasks: Sequence[Task], done: set[str], measured: Seconds, stated: float | None, workers: int
) -> list[dict[str, Any]]:
    """A row a log, and one of all: tasks, those to do, seconds a task and where they are from, core-hours, time.

    A task of which none like it was measured is taken at the mean of those of its log, else at what is stated; NaN
    where neither is known. The time on `workers` is that of their even share, and no shorter than the longest task.
    """
    rows = []
    for log in [*dict.fromkeys(task.log.name for task in tasks), ""]:
        mine = [task for task in tasks if not log or task.log.name == log]
        todo = [task for task in mine if task.key not in done]
        seconds = [seconds_of(task, measured, stated) for task in todo]
        total = sum(seconds)
        rows.append(
            {
                "log": log or "all",
                "tasks": len(mine),
                "done": len(mine) - len(todo),
                "to_do": len(todo),
                "task_s": total / len(todo) if todo else 0.0,
                "core_hours": total / 3600.0,
                "wall_s": max(total / workers, max(seconds)) if seconds else 0.0,
            }
        )
    return rows


def seconds_of(task: Task, measured: Seconds, stated: float | None) -> float:
    """What one task is taken at; NaN where nothing is known."""
    own = measured.get((task.log.name, task.policy, task.predictor))
    if own is not None:
        return own
    of_log = [seconds for (log, _, _), seconds in measured.items() if log == task.log.name]
    if of_log:
        return sum(of_log) / len(of_log)
    return float("nan") if stated is None else stated
