"""A whole log as the numbers and codes that `steps` takes, a column at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ...table import Nominal, Values
from .coder import field_code, name_stem
from .memory import CLASSES, FIELDS


class Coded(NamedTuple):
    """`numbers` (n, 3) and `codes` (n, 1 + classes + fields) of a log's jobs; how many users, and classes of a kind."""

    numbers: np.ndarray
    codes: np.ndarray
    users: int
    classes: int


def coded(columns: Mapping[str, Values], n: int) -> Coded:
    """The same as `Coder.row` says job by job, but for the numbers of users and classes: any that tell them apart.

    `columns` are those known at submission (`Trace.at_submission`), n long. O(n log n), under a microsecond a job.

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
    fields = [_field_codes(columns.get(name), n) for name in FIELDS[:-1]]
    fields.append(_field_codes(columns.get("job_name"), n, stems=True))
    codes = np.column_stack([user, *classes, *fields]).astype(np.int64).reshape(n, 1 + CLASSES + len(FIELDS))
    most = max((int(kind.max(initial=-1)) + 1 for kind in classes), default=0)
    return Coded(np.column_stack([submit, limit, procs]).reshape(n, 3), codes, int(user.max(initial=-1)) + 1, most)


def _ranks(values: np.ndarray) -> np.ndarray:
    """A whole number for each value (n,)."""
    return np.asarray(np.unique(values, return_inverse=True)[1]).reshape(len(values))


def _paired(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """A whole number for each pair of whole numbers (n,)."""
    return _ranks(one.astype(np.int64) * (int(other.max(initial=0)) + 1) + other)


def _numbered(values: Values | None, n: int) -> np.ndarray:
    """A whole number for each value of a column, unknown being one of its own."""
    if values is None:
        return np.zeros(n, np.int64)
    return _ranks(values.codes if isinstance(values, Nominal) else np.asarray(values))


def _field_codes(values: Values | None, n: int, stems: bool = False) -> np.ndarray:
    """`field_code` of each value of a column (n,), of names without their numbers with `stems`; 0 where unknown."""
    if values is None:
        return np.zeros(n, np.int64)
    if isinstance(values, Nominal):
        names = [name_stem(name) if stems else name for name in values.categories]
        return np.asarray(np.array([*map(field_code, names), 0], np.int64)[values.codes])
    if stems:
        return np.zeros(n, np.int64)
    known, inverse = np.unique(np.asarray(values), return_inverse=True)
    table = np.array([0 if value != value else field_code(value) for value in known.tolist()], np.int64)
    return np.asarray(table[inverse.reshape(n)])
