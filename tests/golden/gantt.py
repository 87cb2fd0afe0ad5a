"""Schedules worked out by hand, as text: one line per job, one column per unit of time; `.` waiting, `#` running, `~`
backfilled.

Columns before the bar: submit, processors, run, request (units of 10 s). The drawing starts at time 0.
"""

from __future__ import annotations

import numpy as np

from batchcast.simulation import Policy, simulate
from batchcast.table import Trace

UNIT = 10.0


def jobs_of(picture: str) -> Trace:
    rows = [line.split("|")[0].split() for line in picture.strip().splitlines()]
    submit, procs, run, request = (np.array(c, dtype=float) for c in zip(*rows))
    columns = {"submit_time": submit * UNIT, "req_procs": procs, "run_time": run * UNIT, "req_time": request * UNIT}
    return Trace.from_arrays({**columns, "user_id": np.zeros(len(rows), dtype=int)})


def draw(picture: str, total: int, policy: Policy, runtime: str = "requested") -> str:
    """Return the same picture with the bars of the simulated schedule."""
    schedule = simulate(jobs_of(picture), policy, runtime, total=total)
    out = []
    for line, submit, start, end, mark in zip(
        picture.strip().splitlines(),
        schedule.submit_time / UNIT,
        schedule.start_time / UNIT,
        schedule.end_time / UNIT,
        np.where(schedule.backfilled, "~", "#"),
    ):
        bar = " " * round(submit) + "." * round(start - submit) + str(mark) * round(end - start)
        out.append(line.split("|")[0] + "|" + bar)
    return "\n".join(line.strip() for line in out)


def agrees(picture: str, total: int, policy: Policy, runtime: str = "requested") -> None:
    expected = "\n".join(line.strip() for line in picture.strip().splitlines())
    assert draw(picture, total, policy, runtime) == expected
