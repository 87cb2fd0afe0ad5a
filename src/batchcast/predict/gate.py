# SPDX-License-Identifier: Apache-2.0
"""The only way from a log's columns to a predictor: which columns it may name, and what it reads of them.

What is known at submission is said once, by the table of columns (columns.py). `Trace.at_submission` and
`job.as_submitted` make requests of it for the recorded and simulated clocks and for the live one; here are the names a
method may be pointed at, the value of one on a request, and its codes for the kernel's own predictors, so that both
ways answer alike. O(names) a job, O(n log n) a column. Then what regressions make of them: names as the numbers they
take, the hour as a point on a circle, and when to refit.
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
    """Every name that `fields`, `keys` or `features` of a predictor may hold, sorted.

    >>> "req_gpus" in accepted(), "run_time" in accepted(), "speed" in accepted(("speed",))
    (True, False, True)
    """
    return tuple(sorted({*DERIVED, *KNOWN_AT_SUBMISSION, *vouched} - {"job_id"}))


def check_names(names: Iterable[str], vouched: Collection[str] = (), who: str = "a predictor") -> None:
    """UsageError unless every name is a column known at submission, or one the user vouched for.

    >>> check_names(("user_id", "run_time"))
    Traceback (most recent call last):
    ...
    batchcast.errors.UsageError: a predictor cannot use 'run_time': it is known only when the job has ended ...
    """
    allowed = accepted(vouched)
    for name in names:
        if name in allowed:
            continue
        later = SUMS.get(name) or (DECLARED[name].known if name in DECLARED else None)
        forms = f"(accepted: {', '.join(allowed)})"
        if later is not None and later != "submission":
            raise UsageError(f"{who} cannot use {name!r}: it is known {MOMENT_WORDS[later]} {forms}")
        if name == "job_id":
            raise UsageError(f"{who} cannot use 'job_id': every job has its own {forms}")
        raise UsageError(
            f"{who} cannot use {name!r}: no column known at submission has that name {forms}",
            hint=f"--known-at-submit {name}, if the log has such a column and it is known when a job is submitted",
        )


def check_predictor(method: Any, vouched: Collection[str] = (), who: str = "") -> None:
    """`check_names` of the columns that a predictor says it `uses`; one without that attribute names none."""
    check_names(getattr(method, "uses", ()), vouched, who or type(method).__name__)


def field_value(job: JobRequest, name: str) -> Any:
    """A column of a request by name; None when unknown.

    `procs_log2` is the size class of the processors: the next power of two, as its exponent.

    >>> field_value(JobRequest(0, 1, 0.0, 4.0, float("nan"), float("nan"), extra={"ispin": 2}), "ispin")
    2
    """
    if name == "procs_log2":
        return math.ceil(math.log2(job.procs)) if 0 < job.procs < math.inf else None
    value = getattr(job, name) if name in _OWN else job.extra.get(name)
    return None if value != value else value


def class_key(job: JobRequest, names: Sequence[str]) -> tuple[Any, ...]:
    """The job's values on `names`: jobs with equal keys are one class; unknown is None, a value like any other.

    >>> class_key(JobRequest(0, 1, 0.0, 4.0, float("nan"), float("nan"), user_id="ada"), ("user_id", "req_time"))
    ('ada', None)
    """
    return tuple(field_value(job, name) for name in names)


def class_codes(columns: dict[str, Values], names: Sequence[str], count: int) -> tuple[np.ndarray, int]:
    """The classes of `class_key` for many jobs at once, as numbers (n,) from 0, and how many there are.

    `columns` is what `Trace.at_submission` gave, cut to the `count` jobs asked about. A job with an unknown value on
    one of the names is in no class: -1. O(n log n) a name.

    >>> log = Trace.from_arrays({"submit_time": [0, 1, 2], "req_gpus": [2, None, 2], "run_time": [5, 6, 7]})
    >>> class_codes(log.at_submission(), ("req_gpus",), 3)[0].tolist()
    [0, -1, 0]
    """
    numbers, classes = np.zeros(count, np.int64), 1
    for name in names:
        codes = _codes(columns, name, count)
        numbers = np.where((numbers >= 0) & (codes >= 0), numbers * (int(codes.max(initial=0)) + 1) + codes, -1)
        numbers, classes = numbered(numbers)  # renumbered at each name, so that the product never overflows
    return numbers, classes


def _codes(columns: dict[str, Values], name: str, count: int) -> np.ndarray:
    """Equal values get equal numbers from 0, the unknown -1."""
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
    """Codes renumbered from 0 without gaps (negative ones stay -1), and how many.

    >>> numbered(np.array([7, -1, 3, 7]))[0].tolist()
    [1, -1, 0, 1]
    """
    if len(codes) > 0 and int(codes.max()) < 4 * len(codes):  # counted, where that is cheaper than to sort
        there = np.zeros(int(codes.max()) + 2, bool)
        there[np.maximum(codes, -1)] = True
        there[-1] = False  # where negative ones went
        number = np.cumsum(there) - 1
        return np.where(codes >= 0, number[codes], -1), int(there.sum())
    known = codes >= 0
    plain = np.full(len(codes), -1, np.int64)
    names, plain[known] = np.unique(codes[known], return_inverse=True)
    return plain, len(names)


def lacking(method: Any, trace: Trace) -> tuple[str, ...]:
    """Of the columns a predictor says it `uses`, those no job of the log knows: what a table should mark. O(n) each.

    A predictor that reads one column where another is unknown names such groups in `either`; one known column of a
    group is enough.
    """
    seen = trace.at_submission()
    unknown = [name for name in getattr(method, "uses", ()) if not _is_known(seen, name)]
    groups = _either(method)
    return tuple(name for name in unknown if not any(name in group and set(group) - set(unknown) for group in groups))


def _either(method: Any) -> tuple[tuple[str, ...], ...]:
    """The groups of columns of which one is enough, of a predictor or of the one that it wraps."""
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


def size_and_hour(job: JobRequest, offset: float = 0.0) -> tuple[float, float, float]:
    """Processors, and sine and cosine of the hour of submission; `offset` is the zone's, in seconds.

    Processors are NaN where unknown or absurd (a thousand million and more).

    >>> size_and_hour(JobRequest(0, 1, 21600.0, 8.0, float("nan"), float("nan")))[:2]
    (8.0, 1.0)
    """
    angle = 2.0 * math.pi * (((job.submit_time + offset) % DAY) / DAY)
    procs = job.procs if 0 < job.procs < ABSURD else math.nan
    return procs, math.sin(angle), math.cos(angle)


LARGEST = 1e30  # what single precision holds, since trees compare in it


@dataclass(frozen=True, slots=True)
class Numbers:
    """How rows become numbers: categories of the names, and what stands for an unknown value.

    A column is one of names when columns.py declares it so or a row that teaches holds text. Its categories are
    numbered in sorted order, numbers before text; unknown and never seen ones are unknown.

    >>> Numbers.of(("user_id", "procs"), [("b", 4.0), ("a", None)]).table([("a", 2.0), ("c", None)]).tolist()
    [[0.0, 2.0], [nan, nan]]
    """

    codes: tuple[dict[Any, int] | None, ...]
    instead: np.ndarray

    @classmethod
    def of(cls, names: Sequence[str], rows: Sequence[Sequence[Any]], with_unknown: bool = True) -> Numbers:
        """From the rows that teach; unless `with_unknown`, the mean of a column stands for its unknown values."""
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
        """Rows as numbers, (rows, columns), float64, finite or NaN."""
        numbers = [
            [_number(value) if codes is None else codes.get(value, math.nan) for value, codes in zip(row, self.codes)]
            for row in rows
        ]
        table = np.clip(np.array(numbers, dtype=float).reshape(len(rows), len(self.codes)), -LARGEST, LARGEST)
        return np.where(np.isnan(table), self.instead, table)


def numbered_categories(values: Sequence[Any]) -> dict[Any, int]:
    """The distinct known values, numbered from 0 in sorted order, numbers before text.

    >>> numbered_categories(["b", 7, None, "a", 7])
    {7: 0, 'a': 1, 'b': 2}
    """
    known = {value for value in values if value is not None}
    return {value: code for code, value in enumerate(sorted(known, key=lambda v: (isinstance(v, str), v)))}


def _is_of_names(name: str, column: Sequence[Any]) -> bool:
    declared = DECLARED.get(name)
    return (declared is not None and declared.kind == "nominal") or any(isinstance(value, str) for value in column)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else math.nan


class Warming:
    """Due after 100, 200, 400, ... submissions until the gap has grown to `every`, then every `every`.

    A clock asks every `cadence` submissions; `due` says whether this is one.

    >>> pace = Warming(300)
    >>> [n for n in range(100, 1500, pace.cadence) if pace.due(n)]
    [100, 200, 400, 700, 1000, 1300]
    """

    FIRST = 100

    def __init__(self, every: int) -> None:
        if every < 1:
            raise ValueError("every is at least 1 job")
        self.every = every
        self.cadence = self.next = min(self.FIRST, every)

    def due(self, submitted: int) -> bool:
        """Whether to refit now; moves on to the next time if so."""
        if submitted < self.next:
            return False
        self.next = submitted + min(submitted, self.every)
        return True
