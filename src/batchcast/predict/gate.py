# SPDX-License-Identifier: Apache-2.0
"""Decides which columns of a log a predictor may read, and reads the values of these columns.

`columns.py` declares which columns are known at submission. `Trace.at_submission` and `job.as_submitted` use the
declaration to build job requests for replays, simulations and the live service. This module checks the column names
that a predictor is configured with, reads one column of a request, and encodes columns as integers for compiled
predictors. Python code and compiled code compare values by the same rules, so both give equal predictions. The module
also encodes names and hours as numbers for regression models, and decides when a model is refitted. Costs O(names) per
job and O(n log n) per column.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..columns import DECLARED, KNOWN_AT_SUBMISSION, MOMENT_WORDS, SUMS
from ..errors import UsageError
from ..job import ATTRIBUTES, JobRequest
from ..table import Nominal, Trace, Values

DERIVED = ("procs", "procs_log2")
_OWN = frozenset((*ATTRIBUTES, "procs")) - {"job_id"}


def accepted(vouched: Collection[str] = ()) -> tuple[str, ...]:
    """Return all column names, sorted, that are allowed in the settings `fields`, `keys` and `features` of a predictor.

    >>> "req_gpus" in accepted(), "run_time" in accepted(), "speed" in accepted(("speed",))
    (True, False, True)
    """
    return tuple(sorted({*DERIVED, *KNOWN_AT_SUBMISSION, *vouched} - {"job_id"}))


def check_names(names: Iterable[str], vouched: Collection[str] = (), predictor_name: str = "a predictor") -> None:
    """Raise UsageError unless each name is a column known at submission, or is in `vouched`, the columns that the user
    declares as known at submission.

    >>> check_names(("user_id", "run_time"))
    Traceback (most recent call last):
    ...
    batchcast.errors.UsageError: a predictor cannot use 'run_time': it is known only when the job has ended ...
    """
    allowed = accepted(vouched)
    for name in names:
        if name in allowed:
            continue
        later = SUMS.get(name) or (DECLARED[name].known_at if name in DECLARED else None)
        forms = f"(accepted: {', '.join(allowed)})"
        if later is not None and later != "submission":
            raise UsageError(f"{predictor_name} cannot use {name!r}: it is known {MOMENT_WORDS[later]} {forms}")
        if name == "job_id":
            raise UsageError(f"{predictor_name} cannot use 'job_id': every job has its own {forms}")
        raise UsageError(
            f"{predictor_name} cannot use {name!r}: no column known at submission has that name {forms}",
            hint=f"--known-at-submit {name}, if the log has such a column and it is known when a job is submitted",
        )


def check_predictor(method: Any, vouched: Collection[str] = (), predictor_name: str = "") -> None:
    """Apply `check_names` to the columns in a predictor's attribute `uses`, if the predictor has this attribute."""
    check_names(getattr(method, "uses", ()), vouched, predictor_name or type(method).__name__)


def field_value(job: JobRequest, name: str) -> Any:
    """Return one column of a job request; None if unknown.

    `procs_log2` is the size class: the exponent of the next power of two at or above the number of processors.

    >>> field_value(JobRequest(0, 1, 0.0, 4.0, float("nan"), float("nan"), extra={"ispin": 2}), "ispin")
    2
    """
    if name == "procs_log2":
        return math.ceil(math.log2(job.procs)) if 0 < job.procs < math.inf else None
    value = getattr(job, name) if name in _OWN else job.extra.get(name)
    return None if value != value else value


def class_key(job: JobRequest, names: Sequence[str]) -> tuple[Any, ...]:
    """Return the job's values in the columns `names`. Jobs with equal values form a class; None (unknown) equals None.

    >>> class_key(JobRequest(0, 1, 0.0, 4.0, float("nan"), float("nan"), user_id="ada"), ("user_id", "req_time"))
    ('ada', None)
    """
    return tuple(field_value(job, name) for name in names)


def class_codes(columns: dict[str, Values], names: Sequence[str], count: int) -> tuple[np.ndarray, int]:
    """Number the classes of many jobs from 0: returns the class of each job (n,), and the number of classes.

    `columns` is the result of `Trace.at_submission`, limited to the `count` jobs that are predicted. Unlike in
    `class_key`, a job with an unknown value in one of the columns belongs to no class: -1. Costs O(n log n) per column
    name.

    >>> log = Trace.from_arrays({"submit_time": [0, 1, 2], "req_gpus": [2, None, 2], "run_time": [5, 6, 7]})
    >>> class_codes(log.at_submission(), ("req_gpus",), 3)[0].tolist()
    [0, -1, 0]
    """
    numbers, classes = np.zeros(count, np.int64), 1
    for name in names:
        codes = _codes(columns, name, count)
        numbers = np.where((numbers >= 0) & (codes >= 0), numbers * (int(codes.max(initial=0)) + 1) + codes, -1)
        numbers, classes = numbered(numbers)  # renumber after each name, so that the product never overflows
    return numbers, classes


def _codes(columns: dict[str, Values], name: str, count: int) -> np.ndarray:
    """Number the distinct values of a column from 0; unknown values are -1."""
    values = columns.get("procs" if name == "procs_log2" else name)
    if values is None:
        return np.full(count, -1, np.int64)
    if isinstance(values, Nominal):
        return numbered(values.codes)[0]
    plain = np.asarray(values, dtype=float)
    if name == "procs_log2":
        plain = np.where((plain > 0) & np.isfinite(plain), plain, np.nan)
        plain = np.array([math.ceil(math.log2(p)) if p == p else math.nan for p in plain.tolist()])
    codes = np.full(count, -1, np.int64)
    known = ~np.isnan(plain)
    codes[known] = np.unique(plain[known], return_inverse=True)[1]
    return codes


def numbered(codes: np.ndarray) -> tuple[np.ndarray, int]:
    """Renumber codes from 0 without gaps, and return how many there are; negative codes become -1.

    >>> numbered(np.array([7, -1, 3, 7]))[0].tolist()
    [1, -1, 0, 1]
    """
    if len(codes) > 0 and int(codes.max()) < 4 * len(codes):  # counting is cheaper than sorting here
        there = np.zeros(int(codes.max()) + 2, bool)
        there[np.maximum(codes, -1)] = True
        there[-1] = False  # negative codes have marked the last element (index -1); clear that mark
        number = np.cumsum(there) - 1
        return np.where(codes >= 0, number[codes], -1), int(there.sum())
    known = codes >= 0
    plain = np.full(len(codes), -1, np.int64)
    names, plain[known] = np.unique(codes[known], return_inverse=True)
    return plain, len(names)


def lacking(method: Any, trace: Trace) -> tuple[str, ...]:
    """Return the columns in the predictor's `uses` that are unknown for every job of the log. O(n) a column.

    Result tables mark predictors that lack a column. If a predictor can read one column instead of another, the
    predictor lists the alternative columns as a group in `either`; one known column of a group is enough.
    """
    seen = trace.at_submission()
    unknown = [name for name in getattr(method, "uses", ()) if not _is_known(seen, name)]
    groups = _either(method)
    return tuple(name for name in unknown if not any(name in group and set(group) - set(unknown) for group in groups))


def _either(method: Any) -> tuple[tuple[str, ...], ...]:
    """Return the groups of alternative columns declared by a predictor, or by the predictor that it wraps."""
    while not hasattr(method, "either") and hasattr(method, "inner"):
        method = method.inner
    return tuple(getattr(method, "either", ()))


def _is_known(seen: dict[str, Values], name: str) -> bool:
    if name in DERIVED:
        return bool((np.asarray(seen["procs"]) > 0).any())
    values = seen.get(name)
    if values is None:
        return False
    return bool((values.is_known() if isinstance(values, Nominal) else values == values).any())


DAY = 86400.0
ABSURD = 1e9


LARGEST = 1e30  # regression trees compare values in single precision


@dataclass(frozen=True, slots=True)
class Numbers:
    """Encodes rows as numbers: each distinct name gets a number, and unknown values get a fixed value.

    A column holds names if columns.py declares it so, or if one of the training rows contains text. Names are
    numbered in sorted order, numbers before text. Names that were not in the training rows count as unknown.

    >>> Numbers.of(("user_id", "procs"), [("b", 4.0), ("a", None)]).table([("a", 2.0), ("c", None)]).tolist()
    [[0.0, 2.0], [nan, nan]]
    """

    codes: tuple[dict[Any, int] | None, ...]
    instead: np.ndarray

    @classmethod
    def of(cls, names: Sequence[str], rows: Sequence[Sequence[Any]], with_unknown: bool = True) -> Numbers:
        """Learn the encoding from training rows; without `with_unknown`, a column's mean replaces its unknown
        values.
        """
        codes = tuple(
            numbered_categories(column) if _is_of_names(name, column) else None
            for name, column in zip(names, zip(*rows))
        )
        plain = cls(codes, np.full(len(names), math.nan))
        if with_unknown:
            return plain
        table = plain.table(rows)
        known = ~np.isnan(table)
        means = np.where(known, table, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        return cls(codes, means)

    def table(self, rows: Sequence[Sequence[Any]]) -> np.ndarray:
        """Encode rows as an array of shape (rows, columns), float64; every value is finite or NaN."""
        numbers = [
            [
                finite_or_nan(value) if codes is None else codes.get(value, math.nan)
                for value, codes in zip(row, self.codes)
            ]
            for row in rows
        ]
        table = np.clip(np.array(numbers, dtype=float).reshape(len(rows), len(self.codes)), -LARGEST, LARGEST)
        return np.where(np.isnan(table), self.instead, table)


def numbered_categories(values: Sequence[Any]) -> dict[Any, int]:
    """Number the distinct known values from 0 in sorted order, numbers before text.

    >>> numbered_categories(["b", 7, None, "a", 7])
    {7: 0, 'a': 1, 'b': 2}
    """
    known = {value for value in values if value is not None}
    return {value: code for code, value in enumerate(sorted(known, key=lambda v: (isinstance(v, str), v)))}


def _is_of_names(name: str, column: Sequence[Any]) -> bool:
    declared = DECLARED.get(name)
    return (declared is not None and declared.kind == "nominal") or any(isinstance(value, str) for value in column)


def finite_or_nan(value: Any) -> float:
    """Return the value as a float; NaN if it is not a finite number.

    >>> finite_or_nan(3), finite_or_nan("3"), finite_or_nan(math.inf)
    (3.0, nan, nan)
    """
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else math.nan
