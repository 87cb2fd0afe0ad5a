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


class Rings:
    """The memory of `native_planner` for jobs that come period by period: it grows with the users and classes met."""

    def __init__(self, predictor: Last2 | RecentMean) -> None:
        self.numbers: dict[tuple[Any, ...], int] = {}
        if isinstance(predictor, Last2):
            self.fields: tuple[str, ...] = ()
            self.length, self.settings = 2, {"need": predictor.need, "whole_seconds": predictor.round == "down"}
        else:
            self.fields, self.length, self.settings = predictor.fields, predictor.k, {"need": 1}
        self.memory = recent_memory(64, self.length, **self.settings)

    def assign(self, trace: Trace, work: Workload, jobs: np.ndarray) -> None:
        """Write into the job records which ring is their user's and which that of jobs like them."""
        seen, n = _submitted(trace, work), len(work.rows)
        jobs["user_ring"] = self._rings(seen, ("user_id",), n) if "user_id" in seen else -1
        if self.fields:
            jobs["alike_ring"] = self._rings(seen, self.fields, n)
        if len(self.numbers) > len(self.memory.arrays["counts"]):
            old = self.memory.arrays
            self.memory = recent_memory(2 * len(self.numbers), self.length, **self.settings)
            for name, values in old.items():
                self.memory.arrays[name][: len(values)] = values

    def _rings(self, seen: dict[str, Values], fields: tuple[str, ...], n: int) -> np.ndarray:
        """The ring of each job's class (n,), -1 where it is in none; a class met for the first time gets the next."""
        codes, classes = class_codes(seen, fields, n)
        known = np.flatnonzero(codes >= 0)
        first = np.zeros(classes, np.int64)
        first[codes[known[::-1]]] = known[::-1]
        columns = [_plain(seen["procs" if name == "procs_log2" else name], name, first) for name in fields]
        rings = [self.numbers.setdefault((fields, *key), len(self.numbers)) for key in zip(*columns)]
        return np.asarray(np.array([*rings, -1], np.int64)[codes])


def _plain(values: Values, name: str, rows: np.ndarray) -> list[Any]:
    """A column's values on some rows, as `gate.class_codes` tells them apart."""
    if isinstance(values, Nominal):
        return values.take(rows).decode()
    numbers = values[rows]
    return list((np.ceil(np.log2(numbers)) if name == "procs_log2" else numbers).tolist())


def _submitted(trace: Trace, work: Workload) -> dict[str, Values]:
    """What is known of the simulated jobs at submission, with the processors and the request that plan them."""
    seen = {n: v.take(work.rows) if isinstance(v, Nominal) else v[work.rows] for n, v in trace.at_submission().items()}
    return {**seen, "procs": work.procs.astype(float), "req_time": work.request}
