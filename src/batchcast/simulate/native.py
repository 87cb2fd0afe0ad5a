"""Predictors the kernel knows natively: their parameters as registers, their memory as rings."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..predict.runtime.last_2 import Last2
from ..predict.runtime.recent_mean import RecentMean
from ..schedule.state import RECENT
from ..table import Nominal, Trace
from .workload import Workload


def native_planner(predictor: Any, trace: Trace, work: Workload) -> dict[str, Any] | None:
    """Registers, ring numbers and sizes for the kernel's own branch; None for a predictor it does not know.

    Exactly the predictor's class counts: a subclass may answer otherwise.
    """
    if type(predictor) is Last2:
        users, count = _numbered(trace.nominal("user_id").codes[work.rows])
        settings = {"need": predictor.need, "whole_seconds": int(predictor.round == "down")}
        return {"settings": settings, "user": users, "alike": np.full(len(users), -1), "rings": count, "memory": 2}
    if type(predictor) is RecentMean:
        users, count = _numbered(trace.nominal("user_id").codes[work.rows])
        alike, classes = _alike(predictor.fields, trace, work)
        alike[alike >= 0] += count
        return {"settings": {"need": 1}, "user": users, "alike": alike, "rings": count + classes, "memory": predictor.k}
    return None


def plan_with(jobs: np.ndarray, native: dict[str, Any]) -> dict[str, Any]:
    """Write the ring numbers into the job records; the rest are arguments of `make_state`."""
    jobs["user_ring"], jobs["alike_ring"] = native["user"], native["alike"]
    return {"planner": RECENT, "rings": native["rings"], "memory": native["memory"], **native["settings"]}


def _alike(fields: tuple[str, ...], trace: Trace, work: Workload) -> tuple[np.ndarray, int]:
    """Class numbers of jobs equal on all fields, -1 where one is unknown; how many classes."""
    columns, known = [], np.ones(len(work.rows), bool)
    for name in fields:
        codes = _codes(name, trace, work)
        known &= codes >= 0
        columns.append(codes)
    numbers = np.full(len(work.rows), -1, np.int64)
    if not columns:
        numbers[:] = 0
        return numbers, 1
    numbers[known], count = _classes(np.stack(columns, axis=1)[known])
    return numbers, count


def _codes(name: str, trace: Trace, work: Workload) -> np.ndarray:
    if name == "req_time":
        return Nominal.encode(work.request).codes.astype(np.int64)
    if name == "procs":
        return work.procs
    column = trace.column(name) if name in trace.names else np.full(len(trace), np.nan)
    nominal = column if isinstance(column, Nominal) else Nominal.encode(np.asarray(column))
    return nominal.codes[work.rows].astype(np.int64)


def _classes(rows: np.ndarray) -> tuple[np.ndarray, int]:
    if len(rows) == 0:
        return np.empty(0, np.int64), 0
    key = np.zeros(len(rows), np.int64)
    for column in rows.T:  # fold one column after the other, renumbering so that the product never overflows
        key, _ = _numbered(key * (int(column.max()) + 1) + column)
    return key, int(key.max()) + 1


def _numbered(codes: np.ndarray) -> tuple[np.ndarray, int]:
    """Codes renumbered from 0 (negative ones stay -1), and how many."""
    known = codes >= 0
    out = np.full(len(codes), -1, np.int64)
    names, out[known] = np.unique(codes[known], return_inverse=True)
    return out, len(names)
