# SPDX-License-Identifier: Apache-2.0
"""Encodes the user, the classes and the fields of jobs as numbers.

`Coder` encodes one job at a time, `coded` a whole log column by column.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from ...job import JobRequest, name_stem
from ...table import Nominal, Values
from ..gate import numbered
from .memory import CLASSES, FIELDS

ROWS = 4096
_PLAIN = attrgetter(*FIELDS[:-1])


def field_code(value: Any) -> int:
    """Return an integer code for a value, which is equal in every process; 0 for an unknown value.

    >>> field_code(None), field_code(7) == field_code(7), field_code("ada") == field_code("eve")
    (0, True, False)
    """
    if value is None:
        return 0
    if type(value) is int and 0 <= value < 1 << 60:
        return value + 1
    return crc32(repr(value).encode("utf-8", "surrogatepass")) + (1 << 61)


class Coder:
    """Numbers users and classes of jobs in the order of their first appearance."""

    def __init__(self) -> None:
        self.users: dict[Any, int] = {}
        self.classes: tuple[dict[Any, int], ...] = tuple({} for _ in range(CLASSES))

    def row(self, job: JobRequest) -> tuple[int, ...]:
        """Return user, classes, and the codes of FIELDS, as `steps.write_request` expects them in `codes`.

        >>> job = JobRequest(0, 1, 0.0, 4.0, 60.0, float("nan"), user_id="ada")
        >>> Coder().row(job)[:6]
        (0, 0, 0, 0, 0, 0)
        """
        user = job.user_id
        limit = job.req_time if 0.0 < job.req_time < math.inf else None
        procs = job.procs if job.procs > 0.0 else None
        keys = (user, (user, limit), (user, procs), (user, limit, procs), limit)
        number = self.users.setdefault(user, len(self.users))
        classes = [known.setdefault(key, len(known)) for known, key in zip(self.classes, keys)]
        return (number, *classes, *self._fields(job))

    def _fields(self, job: JobRequest) -> list[int]:
        return [0 if v is None or v != v else field_code(v) for v in (*_PLAIN(job), name_stem(job.job_name))]

    def most_classes(self) -> int:
        """Return the largest number of classes of one kind."""
        return max(len(known) for known in self.classes)


class Coded(NamedTuple):
    """Arrays `numbers` (n, 3) and `codes` (n, 1 + classes + fields) of a log's jobs, and counts of users and
    classes.
    """

    numbers: np.ndarray
    codes: np.ndarray
    users: int
    classes: int


def coded(columns: Mapping[str, Values], n: int) -> Coded:
    """Encode a whole log as `Coder.row` encodes one job; only the numbering of users and classes differs.

    `columns` are the columns known at submission (`Trace.at_submission`), of length n. Costs O(n log n), less than 1
    microsecond per job.

    >>> coded({"submit_time": np.zeros(2), "req_time": np.array([60.0, 90.0])}, 2).codes[:, :3].tolist()
    [[0, 0, 0], [0, 0, 1]]
    """
    unknown = np.full(n, np.nan)
    submit, limit, procs = (np.asarray(columns.get(name, unknown)) for name in ("submit_time", "req_time", "procs"))
    user = _numbered(columns.get("user_id"), n)
    known_limit = _ranks(np.where((limit > 0.0) & (limit < np.inf), limit, -1.0))
    known_procs = _ranks(np.where(procs > 0.0, procs, -1.0))
    by_limit, by_procs = _paired(user, known_limit), _paired(user, known_procs)
    classes = [user, by_limit, by_procs, _paired(by_limit, known_procs), known_limit]
    fields = [_field_codes(columns.get(name)) for name in FIELDS[:-1]]
    fields.append(_field_codes(columns.get("job_name"), stems=True))
    codes = _side_by_side([user, *classes, *fields], n, np.int64)
    most = max((int(kind.max(initial=-1)) + 1 for kind in classes), default=0)
    return Coded(_side_by_side([submit, limit, procs], n, np.float64), codes, int(user.max(initial=-1)) + 1, most)


def _side_by_side(columns: Sequence[np.ndarray | int], n: int, kind: Any) -> np.ndarray:
    """Copy columns into one array (n, columns), in blocks of rows that fit the processor's cache."""
    whole = np.empty((n, len(columns)), kind)
    for begin in range(0, n, ROWS):
        some = slice(begin, begin + ROWS)
        for place, column in enumerate(columns):
            whole[some, place] = column if isinstance(column, int) else column[some]
    return whole


def _ranks(values: np.ndarray) -> np.ndarray:
    """Number the distinct values (n,) in ascending order."""
    return np.asarray(np.unique(values, return_inverse=True)[1]).reshape(len(values))


def _paired(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Number the distinct pairs of two integer arrays (n,)."""
    return numbered(one.astype(np.int64) * (int(other.max(initial=0)) + 1) + other)[0]


def _numbered(values: Values | None, n: int) -> np.ndarray:
    """Number the distinct values of a column; unknown counts as one value."""
    if values is None:
        return np.zeros(n, np.int64)
    return _ranks(values.codes if isinstance(values, Nominal) else np.asarray(values))


def _field_codes(values: Values | None, stems: bool = False) -> np.ndarray | int:
    """Return `field_code` of each value (n,), 0 if unknown; with `stems`, digits in names are replaced first."""
    if values is None or (stems and not isinstance(values, Nominal)):
        return 0
    if isinstance(values, Nominal):
        return np.asarray(_category_codes(values.categories, stems)[values.codes])
    known, inverse = np.unique(np.asarray(values), return_inverse=True)
    table = np.array([0 if value != value else field_code(value) for value in known.tolist()], np.int64)
    return np.asarray(table[inverse.reshape(-1)])


@lru_cache(maxsize=16)
def _category_codes(categories: tuple[int | str, ...], stems: bool) -> np.ndarray:
    """Return the codes of all categories (`field_code`), followed by 0 for unknown. The result is cached, because an
    evaluation encodes a log five times.
    """
    names = [name_stem(name) for name in categories] if stems else categories
    return np.array([*map(field_code, names), 0], np.int64)
