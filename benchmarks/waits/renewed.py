"""Coverage of the 90 % times of renewed answers, if every waiting user asks at fixed intervals.

    python -m benchmarks.waits.renewed LOG... [--machine FILE] [--every 900]

Each LOG is a log or a recorded run of ../shared/reference/slurm (its own machine is used then). `forecast` follows the
log event by event. Whenever `--every` seconds of the log have passed, it renews the answers of all waiting jobs. For
each log, by the time already waited, the program prints the number of answers and of jobs, the coverage of the bounds
at 25, 50, 75 and 90 %, and the mean over jobs of the coverage of the 90 % bound, because all answers for a job share
its start.

`--until` counts only answers of the first seconds of the log. The recorded runs end with a queue that drains, where
bounds learned under load almost always hold.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from batchcast.events.event import Event
from batchcast.events.recorded import replay
from batchcast.events.state import SystemState
from batchcast.predict.wait.forecast import Forecast, renewed
from batchcast.table import Trace
from batchcast.trace.machine_files import open_machine, read_texts
from batchcast.trace.read import read_trace

from ..recorded_waits import accounting

AGES = {
    "any": (0.0, math.inf), "below 10 min": (0.0, 600.0), "10 min to 1 h": (600.0, 3600.0),
    "1 h or more": (3600.0, math.inf),
}  # fmt: skip
LEVELS = (2, 3, 4, 5)
"""Positions of 25, 50, 75 and 90 % among the levels of an answer."""


class Told(NamedTuple):
    """Answers: the job's row, the instant, the time waited, and the bounds on the remaining wait at LEVELS."""

    row: np.ndarray
    at: np.ndarray
    waited: np.ndarray
    bounds: np.ndarray


class Asking(Forecast):
    """`forecast` that renews its predictions for all waiting jobs whenever `every` seconds have passed."""

    def __init__(self, every: float, machine: Any) -> None:
        super().__init__(machine=machine)
        self.between, self.next = every, -math.inf
        self.told: list[Told] = []

    def observe(self, event: Event, at: SystemState) -> None:
        """Process the event, then renew the predictions if the interval has passed."""
        super().observe(event, at)
        if at.now >= self.next and at.queued:
            self.next = at.now + self.between
            now = renewed(self, at)
            rest = np.maximum(np.ceil(now.bounds - 1e-9), 0.0)
            self.told.append(Told(now.row, np.full(len(now.row), at.now), now.waited, rest[:, LEVELS]))


def answers(log: Trace, every: float, machine: Any, total: float) -> tuple[Told, np.ndarray]:
    """Return the answers of one log, and each job's remaining wait (NaN: unknown)."""
    method = Asking(every, machine)
    replay(log, {"forecast": method}, total=total)
    told = Told(*map(np.concatenate, zip(*method.told)))
    rest = log.submit_time[told.row] + log.wait_time[told.row] - told.at
    known = rest >= 0.0
    return Told(*(of[known] for of in told)), rest[known]


def early(told: Told, rest: np.ndarray, until: float) -> tuple[Told, np.ndarray]:
    """Return the answers given before the instant `until`."""
    which = told.at < until
    return Told(*(of[which] for of in told)), rest[which]


def show(title: str, told: Told, rest: np.ndarray) -> None:
    """Print one log's block of lines."""
    levels = "".join(f"{level:>7}" for level in ("25 %", "50 %", "75 %", "90 %"))
    print(f"{title}\n{'waited':16}{'answers':>8}{'jobs':>6}{levels}{'90 % by job':>13}{'median error s':>16}")
    for name, (low, high) in AGES.items():
        which = (told.waited >= low) & (told.waited < high)
        if which.any():
            held = rest[which, None] <= told.bounds[which] + 1.0
            jobs, numbers, sizes = np.unique(told.row[which], return_inverse=True, return_counts=True)
            by_job = (np.bincount(numbers, held[:, -1]) / sizes).mean()
            shares = "".join(f"{100 * share:7.1f}" for share in held.mean(axis=0))
            error = np.median(np.abs(rest[which] - told.bounds[which, 1]))
            print(f"{name:16}{which.sum():8,}{len(jobs):6,}{shares}{100 * by_job:13.1f}{error:16.0f}")


def main() -> None:
    """Print a block for each log, and one for all if there are several."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", nargs="+")
    parser.add_argument("--machine")
    parser.add_argument("--every", type=float, default=900.0)
    parser.add_argument("--until", type=float, default=math.inf)
    parser.add_argument("--first", type=int, help="only the first jobs")
    parser.add_argument("--procs-total", type=float)
    given = parser.parse_args()
    found = []
    for number, name in enumerate(given.log):
        if Path(name).is_dir():
            log, machine = accounting(read_texts(Path(name))), open_machine(name)
        else:
            log, machine = read_trace(name), open_machine(given.machine) if given.machine else None
        log = log.take(np.arange(min(len(log), given.first or len(log))))
        told, rest = answers(log, given.every, machine, given.procs_total or log.info.max_procs)
        told, rest = early(told, rest, np.nanmin(log.submit_time) + given.until)
        show(Path(name).name, told, rest)
        found.append((told._replace(row=told.row + 1e6 * number), rest))
    if len(found) > 1:
        together = Told(*map(np.concatenate, zip(*(told for told, _ in found))))
        show(f"all {len(found)}", together, np.concatenate([rest for _, rest in found]))


if __name__ == "__main__":
    main()
