# SPDX-License-Identifier: Apache-2.0
"""The gate: which columns a predictor may name, and what it reads of them; no other way leads from a log to it.

What is known at submission is said once, by the table of columns (columns.py). `Trace.at_submission` and
`job.as_submitted` make requests of it for the recorded and simulated clocks and for the live one; here are the names a
method may be pointed at, the value of one on a request, and its codes for the kernel's own predictors, so that both
ways answer alike. O(names) a job, O(n log n) a column.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
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
    known = codes >= 0
    plain = np.full(len(codes), -1, np.int64)
    names, plain[known] = np.unique(codes[known], return_inverse=True)
    return plain, len(names)


def lacking(method: Any, trace: Trace) -> tuple[str, ...]:
    """Of the columns a predictor says it `uses`, those no job of the log knows: what a table should mark. O(n) each."""
    seen = trace.at_submission()
    return tuple(name for name in getattr(method, "uses", ()) if not _is_known(seen, name))


def _is_known(seen: dict[str, Values], name: str) -> bool:
    if name in DERIVED:
        return bool((np.asarray(seen["procs"]) > 0).any())
    values = seen.get(name)
    if values is None:
        return False
    return bool((values.is_known() if isinstance(values, Nominal) else values == values).any())
