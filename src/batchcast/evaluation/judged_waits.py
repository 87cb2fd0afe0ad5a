"""The waits by which a simulation is judged: recorded and simulated, of the same jobs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..simulation.schedule import Schedule
from ..table import Trace

MINUTE = 60.0
"""Waits below it count as none: a log's clock and a scheduler's cycle are in them, no queue."""
NEAR = 2.0
"""Waits within this factor of each other are alike."""


@dataclass(frozen=True, slots=True, eq=False)
class JudgedWaits:
    """Rows of the log (m,) and the seconds that these jobs waited as recorded and as simulated, (m,) each.

    `from_eligible`: counted from when a job was eligible, for time on hold is the same in both.
    """

    rows: np.ndarray
    recorded: np.ndarray
    simulated: np.ndarray
    from_eligible: bool = False

    def shares(self) -> tuple[float, float, float]:
        """Of the jobs: those whose waits are alike, those that waited longer as recorded, and longer as simulated.

        Alike are waits below a minute in both, or less than a factor of `NEAR` apart, where less than a minute counts
        as one. The three add up to 1; NaN of no jobs. O(m).

        >>> four = np.array([10.0, 100.0, 900.0, 50.0])
        >>> JudgedWaits(np.arange(4), four, np.array([50.0, 199.0, 100.0, 900.0])).shares()
        (0.5, 0.25, 0.25)
        """
        if not len(self.rows):
            return (float("nan"),) * 3
        recorded, simulated = np.maximum(self.recorded, MINUTE), np.maximum(self.simulated, MINUTE)
        longer, shorter = recorded >= NEAR * simulated, simulated >= NEAR * recorded
        return float((~longer & ~shorter).mean()), float(longer.mean()), float(shorter.mean())


def judged_waits(trace: Trace, schedule: Schedule, inside: np.ndarray, *, without_holds: bool = False) -> JudgedWaits:
    """The waits of the jobs in `inside` (n,) that were simulated and whose wait is recorded.

    `without_holds` leaves out the time that a job was on hold, where any was for more than a minute.
    """
    recorded = trace.wait_time[schedule.rows]
    both = inside[schedule.rows] & (recorded >= 0)
    recorded, simulated = recorded[both], schedule.wait_time[both]
    held = trace.number("eligible_time") - trace.submit_time
    apart = without_holds and bool((held > MINUTE).any())
    if apart:  # time on hold is the same in both by construction, and would only make them look alike
        held = np.maximum(np.nan_to_num(held), 0.0)[schedule.rows][both]
        recorded, simulated = np.maximum(recorded - held, 0.0), np.maximum(simulated - held, 0.0)
    return JudgedWaits(schedule.rows[both], recorded, simulated, apart)
