"""Overhead of a sweep, with tasks of 0.1 s on two processes. 1,000 tasks, or SWEEP_TASKS=10000 of them.

SWEEP_KINDS=ready omits the tasks that take time, so that only the sweep's own cost is measured.
"""

from __future__ import annotations

import os
import tempfile
import time
from functools import partial
from typing import Any

from batchcast.sweep import Task, read_study, results, tasks_of
from batchcast.sweep.dataset import Dataset
from batchcast.sweep.run import local
from batchcast.sweep.run import run as run_tasks
from batchcast.sweep.task import perform
from batchcast.trace import demo_path

TASKS = int(os.environ.get("SWEEP_TASKS", "1000"))
TASK_S = 0.1
WORKERS = 2
STUDY = f"""
replicates = {TASKS - 1}
policies = ["easy"]
predictors = ["requested"]
[[log]]
path = "{demo_path()}"
first = 500
"""


def busy(pattern: dict[str, Any], task: Task) -> dict[str, Any]:
    """A task that uses `TASK_S` of its process's CPU and returns a row as large as a real one."""
    begun, on_clock = time.process_time(), time.perf_counter()
    while time.process_time() - begun < TASK_S:
        pass
    return {**pattern, "key": task.key, "replicate": task.replicate, "task_s": time.perf_counter() - on_clock}


def ready(pattern: dict[str, Any], task: Task) -> dict[str, Any]:
    """A task that returns a row at once, so that only the sweep's own cost remains."""
    return {**pattern, "key": task.key, "replicate": task.replicate, "task_s": 0.0}


def run() -> None:
    """Print the time in which workers did not run tasks, and the additional CPU time per task."""
    tasks = tasks_of(read_study(STUDY))
    pattern = perform(tasks[1])
    print(f"{len(tasks):,} tasks of {TASK_S} s of CPU on {WORKERS} processes; load {os.getloadavg()[0]:.1f} before")
    kinds = {"busy": busy, "ready": ready}
    for name in os.environ.get("SWEEP_KINDS", "busy,ready").split(","):
        work = kinds[name]
        with tempfile.TemporaryDirectory() as folder:
            dataset = Dataset(folder)
            dataset.declare(tasks, STUDY)
            with local(WORKERS) as pool:
                run_tasks(tasks[: 4 * WORKERS], pool, lambda row: None, perform=partial(work, pattern))  # started up
                begun, cpu = time.perf_counter(), time.process_time()
                run_tasks(tasks, pool, dataset.keep, perform=partial(work, pattern))
                dataset.fold_all()
                spent, own = time.perf_counter() - begun, time.process_time() - cpu
            in_tasks = float(results(folder, lists=False)["task_s"].sum())
        if name == "busy":
            print(f"  {spent:.1f} s, the workers at their tasks for {in_tasks / WORKERS:.1f} s each: "
                  f"overhead {100 * (spent * WORKERS / in_tasks - 1):.1f} %; CPU of the sweep itself "
                  f"{1000 * own / len(tasks):.2f} ms a task")  # fmt: skip
        else:
            print(f"  the same with tasks that take no time: {1000 * spent / len(tasks):.2f} ms a task on the clock, "
                  f"{1000 * own / len(tasks):.2f} of them CPU of the sweep itself")  # fmt: skip
