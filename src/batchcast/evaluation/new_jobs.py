# SPDX-License-Identifier: Apache-2.0
"""New jobs that are not in a log: this module parses their description and appends them to the log."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..columns import DECLARED, KNOWN_AT_SUBMISSION
from ..errors import UsageError
from ..events.recorded import Forecasts
from ..table import Nominal, Trace
from ..units import parse_duration
from .replay import replay
from .wait import take_rows

COLUMNS = {
    "user": "user_id", "group": "group_id", "queue": "queue_id", "app": "app_id", "partition": "partition_id",
    "name": "job_name",
}  # fmt: skip
FORM = (
    "procs=64,request=2h[,at=DATE or the log's seconds][,user=,group=,queue=,app=,partition=,name=][,COLUMN=VALUE for"
    " any other column that is known at submission]"
)


@dataclass(frozen=True, slots=True)
class NewJob:
    """The description of a new job.

    The description has processors, time limit in seconds (NaN: no limit), submit time on the log's clock (None: the
    caller's default), and further columns.
    """

    procs: float
    request: float
    at: str | None
    columns: Mapping[str, str]


def parse_new(text: str, needed: Sequence[str] = ("procs", "request")) -> NewJob:
    """Return the job described by `key=value,...`; a UsageError shows the accepted form.

    >>> parse_new("procs=64,request=2h,user=ada")
    NewJob(procs=64.0, request=7200.0, at=None, columns={'user_id': 'ada'})
    """
    given = dict(piece.partition("=")[::2] for piece in text.split(","))
    columns = {COLUMNS.get(key, key): value for key, value in given.items() if key not in ("procs", "request", "at")}
    strange = [key for key in given if (name := COLUMNS.get(key, key)) in columns and name not in KNOWN_AT_SUBMISSION]
    if strange or not set(needed) <= given.keys():
        are = "are" if len(needed) > 1 else "is"
        wrong = f"no key {strange[0]!r}" if strange else f"{' and '.join(needed)} {are} needed"
        raise UsageError(f"--new {text}: {wrong} (accepted: {FORM})")
    try:
        procs = int(given["procs"])
    except ValueError:
        procs = 0
    if procs < 1:
        raise UsageError(f"--new: procs={given['procs']!r} (accepted: a whole number from 1)")
    request = parse_duration(given["request"]) if "request" in given else math.nan
    return NewJob(float(procs), request, given.get("at"), columns)


def instant(trace: Trace, text: str | None) -> float | None:
    """Return a date or a number as seconds on the log's clock; None for an empty text."""
    from ..trace.select import parse_date, zone

    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return parse_date(text, zone(trace.info.timezone)) - trace.info.unix_start


def end_of(trace: Trace) -> float:
    """Return the instant after the last submission and the last end of a log, in seconds on the log's clock.

    >>> end_of(Trace.from_arrays({"submit_time": [0.0, 50.0], "wait_time": [5.0, 0.0], "run_time": [90.0, None]}))
    96.0
    """
    ends = trace.submit_time + np.nan_to_num(trace.wait_time) + np.nan_to_num(trace.run_time)
    return float(ends.max()) + 1.0


def with_new_jobs(trace: Trace, jobs: Sequence[Mapping[str, Any]], at: float) -> tuple[Trace, np.ndarray]:
    """Return the log as it was known at an instant, with new jobs submitted at that instant, and the rows of the new
    jobs.

    Jobs submitted after the instant are omitted. As in any replay, predictions use no events after the instant. A new
    job has no start and no end.

    >>> log = Trace.from_arrays({"submit_time": [0.0, 50.0], "run_time": [9.0, 9.0], "user_id": ["ada", "bob"]})
    >>> both, rows = with_new_jobs(log, [{"user_id": "eve", "req_procs": 4.0}], 60.0)
    >>> rows.tolist(), both.nominal("user_id").decode()[-1], both.procs().tolist()[-1]
    ([2], 'eve', 4.0)
    """
    earlier = trace.take(np.flatnonzero(trace.submit_time <= at))
    if not len(earlier):
        raise UsageError(f"--new: at={at:g} is before the log's first submission")
    columns: dict[str, Any] = {}
    given = [{"submit_time": at, **job} for job in jobs]
    if "req_procs" not in earlier.names:
        columns["req_procs"] = np.append(earlier.procs(), [job.get("req_procs", math.nan) for job in given])
    for name in dict.fromkeys([*earlier.names, *(name for job in given for name in job)]):
        values = [job.get(name) for job in given]
        if name == "job_id":
            before = earlier.job_id
            is_text = before.dtype.kind in "UO"
            new: Any = [f"new {k}" for k in range(len(jobs))] if is_text else before.max() + 1 + np.arange(len(jobs))
            columns[name] = np.append(before, new)
        elif name not in columns:
            columns[name] = _longer(earlier, name, values)
    return Trace(columns, earlier.info, is_sorted=True), np.arange(len(earlier), len(earlier) + len(jobs))


def _longer(earlier: Trace, name: str, values: list[Any]) -> Any:
    """Return a column of the log followed by the values of the new jobs; None means unknown."""
    before = earlier.column(name) if name in earlier.names else None
    is_text = isinstance(before, Nominal)
    if before is None:
        is_text = DECLARED[name].kind == "nominal" if name in DECLARED else any(isinstance(v, str) for v in values)
    if not is_text:
        numbers = np.full(len(earlier), math.nan) if before is None else before
        return np.append(numbers, [_number(name, value) for value in values])  # type: ignore[arg-type]
    if not isinstance(before, Nominal):
        before = Nominal(np.full(len(earlier), -1, np.int32), ())
    categories = {str(value): value for value in before.categories}
    words = [None if value is None or value != value else categories.get(str(value), str(value)) for value in values]
    codes = np.append(before.codes, len(before.categories) + np.arange(len(words)))
    return Nominal.recode(codes, [*before.categories, *words])


def _number(name: str, value: Any) -> float:
    """Return a value of a column of numbers; UsageError for text that is no number."""
    if value is None:
        return math.nan
    try:
        return float(value)
    except ValueError:
        raise UsageError(f"--new: {name}={value!r} (accepted: a number)") from None


def forecast_new(
    trace: Trace, predictors: Any, jobs: Sequence[Mapping[str, Any]], at: float, *, procs: str = "req", seed: int = 0
) -> dict[str, Forecasts]:
    """Return the predictions of each run-time predictor for new jobs, in the order of the jobs.

    >>> log = Trace.from_arrays({"submit_time": [0.0], "wait_time": [0.0], "run_time": [9.0], "user_id": ["ada"]})
    >>> forecast_new(log, "recent_mean", [{"user_id": "ada"}, {"user_id": "eve"}], 60.0)["recent_mean"].points.tolist()
    [9.0, 86400.0]
    """
    log, rows = with_new_jobs(trace, jobs, at)
    ask = np.zeros(len(log), bool)
    ask[rows] = True
    predicted = replay(log, predictors, procs=procs, ask=ask, seed=seed)
    return {name: take_rows(forecasts, ask) for name, forecasts in predicted.items()}
