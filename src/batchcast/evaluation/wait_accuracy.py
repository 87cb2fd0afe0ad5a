# SPDX-License-Identifier: Apache-2.0
"""How well waits are predicted on a log: a small replay of its latest jobs, compared with the simplest method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..table import Trace
from .wait import RecordedClock, recorded_wait, run_wait

METHOD = "forecast"
SIMPLEST = "recent_wait"
HISTORY, JUDGED = 1000, 1000
"""The replay learns from this many jobs before it judges the latest ones. Both numbers are small, because `forecast`
refits its model every few hundred jobs, and a report must not take much longer for it."""
LEAST_JUDGED = 50


LONG_S = 600.0
"""The example is the latest job with a predicted wait of at least this many seconds."""


@dataclass(frozen=True, slots=True)
class WaitExample:
    """One job on which wait predictions are tested: the likely wait and the 90 % bound as predicted at submission, and
    the recorded wait, seconds."""

    job_id: str
    likely_s: float
    bound_s: float
    waited_s: float


@dataclass(frozen=True, slots=True)
class WaitAccuracy:
    """Accuracy of wait predictions made at submission, measured on the latest jobs of a log.

    Attributes
    ----------
    predictor, simplest
        The method whose predictions users see, and the simplest method, the median of recent waits.
    jobs, history
        Number of tested jobs, and number of earlier jobs from which the methods learned.
    coverage
        Share of the tested jobs that started by their predicted 90 % bound.
    median_error_s, simplest_median_error_s
        Median absolute error of the predicted wait, seconds, of both methods.
    example
        The latest tested job with a predicted wait of ten minutes or more; None if there is no such job.
    """

    predictor: str
    jobs: int
    history: int
    coverage: float
    median_error_s: float
    simplest: str
    simplest_median_error_s: float
    example: WaitExample | None = None

    def row(self) -> dict[str, Any]:
        """Return the accuracy as one flat object for JSON."""
        return {
            "part": "wait", "predictor": self.predictor, "jobs": self.jobs, "history_jobs": self.history,
            "coverage_90": self.coverage, "median_ae_s": self.median_error_s, "simplest": self.simplest,
            "simplest_median_ae_s": self.simplest_median_error_s,
        }  # fmt: skip


def judge_waits(
    trace: Trace, inside: np.ndarray, *, procs: str = "req", tick: Callable[[int], None] | None = None
) -> WaitAccuracy | None:
    """Replay the latest jobs and measure the accuracy of the predicted waits.

    Parameters
    ----------
    trace
        The log.
    inside
        The jobs that are scored, booleans of shape (n,). The latest `JUDGED` of the scored jobs with a recorded wait
        are tested, but at most half of the jobs with a recorded wait.
    procs
        The rule for a job's processors.
    tick
        Function that is called with the number of replayed jobs.

    Returns
    -------
    WaitAccuracy or None
        None if fewer than `LEAST_JUDGED` jobs can be tested, or if LightGBM cannot be loaded.
    """
    known = np.flatnonzero(inside & ~np.isnan(recorded_wait(trace)))
    places = known[-min(JUDGED, len(known) // 2) :] if len(known) > 1 else known  # the first half is history
    if _missing() or len(places) < LEAST_JUDGED:
        return None
    first = max(0, int(places[0]) - HISTORY)
    part = trace.take(np.arange(first, int(places[-1]) + 1))
    judged = np.zeros(len(part), bool)
    judged[places - first] = True
    on = RecordedClock("honest", procs)
    own, simplest = (run_wait(part, name, judged, on=on).forecasts for name in (METHOD, SIMPLEST))
    if tick is not None:
        tick(len(part))
    wait = recorded_wait(part)[judged]
    bound = own.quantiles[judged, own.levels.index(0.9)]
    errors = [float(np.median(np.abs(each.points[judged] - wait))) for each in (own, simplest)]
    coverage = float((wait <= bound).mean())
    likely = own.points[judged]
    long = np.flatnonzero(likely >= LONG_S)
    example = None
    if len(long):
        at = int(long[-1])
        job = str(part.job_id[judged][at])
        example = WaitExample(job, float(likely[at]), float(bound[at]), float(wait[at]))
    return WaitAccuracy(METHOD, len(wait), int(places[0]) - first, coverage, errors[0], SIMPLEST, errors[1], example)


def why_not_judged() -> str:
    """Return a sentence on why `judge_waits` returned None."""
    return _missing() or f"fewer than {2 * LEAST_JUDGED} scored jobs have a recorded wait"


def _missing() -> str:
    """Return the reason why LightGBM cannot be loaded; empty if it can be loaded. A report must not fail because
    LightGBM is missing."""
    try:
        import lightgbm  # noqa: F401 - it loads a library of the system, which may be missing
    except ImportError:
        return "LightGBM is not installed: pip install 'batchcast[learn]'"
    except OSError as error:
        return f"LightGBM cannot be loaded ({error}): install libgomp1 (Debian) or libgomp (Red Hat, SUSE)"
    return ""
