"""Writes schedules as Batsim's jobs.csv, for the tools that read it (evalys, batvis, ...)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..simulation.placement import interval_text, place
from ..table import Trace
from .csv import write_columns

if TYPE_CHECKING:
    from ..simulation import Schedule

COLUMNS = (
    "job_id", "workload_name", "profile", "submission_time", "requested_number_of_resources", "requested_time",
    "success", "final_state", "starting_time", "execution_time", "finish_time", "waiting_time", "turnaround_time",
    "stretch", "allocated_resources", "consumed_energy", "metadata",
)  # fmt: skip
_STATES = {"failed": "COMPLETED_FAILED", "cancelled": "COMPLETED_KILLED", "timeout": "COMPLETED_WALLTIME_REACHED"}
_FAILED = ("node_fail", "out_of_memory", "boot_fail", "launch_failed", "deadline", "preempted")
_SUCCESS = "COMPLETED_SUCCESSFULLY"


def write_batsim(path: str | Path, schedule: Schedule, trace: Trace) -> None:
    """One line a simulated job in log order, Batsim's columns (docs/output-jobs.rst), seconds on the log's clock.

    Processors are numbered by `simulate.placement`. A job cut at its request reached its walltime; otherwise the final
    state is the recorded one, and success where that is unknown. `profile` is delay_SECONDS; `requested_time` is -1
    without a request, `stretch` and `consumed_energy` are empty where there is none. `trace` is the log that was
    simulated. Written beside and renamed.
    """
    rows = schedule.rows
    run, turnaround = schedule.run_time, schedule.end_time - schedule.submit_time
    held = place(schedule.start_time, schedule.end_time, schedule.procs, schedule.total)
    asked = trace.req_time[rows]
    states = _final_states(trace, schedule)
    with np.errstate(divide="ignore", invalid="ignore"):
        stretch = turnaround / run
    name = Path(trace.info.source).name.split(".")[0] or "log"
    columns = (
        schedule.job_id.tolist(),
        [name] * len(schedule),
        [f"delay_{_text(value)}" for value in run.tolist()],
        _texts(schedule.submit_time),
        schedule.procs.tolist(),
        ["-1" if not value > 0 else _text(value) for value in asked.tolist()],
        [int(state == _SUCCESS) for state in states],
        states,
        _texts(schedule.start_time),
        _texts(run),
        _texts(schedule.end_time),
        _texts(schedule.wait_time),
        _texts(turnaround),
        ["" if not np.isfinite(value) else _text(value) for value in stretch.tolist()],
        map(interval_text, held),
        [""] * len(schedule),
        [""] * len(schedule),
    )
    write_columns(path, COLUMNS, columns)


def _final_states(trace: Trace, schedule: Schedule) -> list[str]:
    status = trace.nominal("status")
    words = [_STATES.get(str(word), _STATES["failed"] if word in _FAILED else _SUCCESS) for word in status.categories]
    states = [[*words, _SUCCESS][code] for code in status.codes[schedule.rows].tolist()]
    cut = trace.run_time[schedule.rows] > schedule.run_time
    return [_STATES["timeout"] if was_cut else state for was_cut, state in zip(cut.tolist(), states)]


def _texts(values: np.ndarray) -> list[str]:
    return [_text(value) for value in values.tolist()]


def _text(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
