"""Predictors the kernel knows natively: their classes of jobs as numbers, their memory as a record."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..predict.gate import class_codes, numbered
from ..predict.runtime.last_2 import Last2
from ..predict.runtime.recent_mean import RecentMean
from ..schedule.native import recent_memory
from ..schedule.state import RECENT
from ..table import Nominal, Trace, Values
from .workload import Workload


def native_planner(predictor: Any, trace: Trace, work: Workload, jobs: np.ndarray) -> dict[str, Any] | None:
    """What `make_state` needs for the kernel's own branch; None for a predictor it does not know.

    Writes into the job records which memory is theirs. Exactly the predictor's class counts: a subclass may answer
    otherwise.
    """
    if type(predictor) is Last2:
        jobs["user_ring"], count = numbered(trace.nominal("user_id").codes[work.rows])
        memory = recent_memory(count, 2, need=predictor.need, whole_seconds=predictor.round == "down")
        return {"planner": RECENT, "memory": memory}
    if type(predictor) is RecentMean:
        jobs["user_ring"], count = numbered(trace.nominal("user_id").codes[work.rows])
        alike, classes = class_codes(_submitted(trace, work), predictor.fields, len(work.rows))
        jobs["alike_ring"] = np.where(alike >= 0, alike + count, -1)
        return {"planner": RECENT, "memory": recent_memory(count + classes, predictor.k, need=1)}
    return None


def _submitted(trace: Trace, work: Workload) -> dict[str, Values]:
    """What is known of the simulated jobs at submission, with the processors and the request that plan them."""
    seen = {n: v.take(work.rows) if isinstance(v, Nominal) else v[work.rows] for n, v in trace.at_submission().items()}
    return {**seen, "procs": work.procs.astype(float), "req_time": work.request}
