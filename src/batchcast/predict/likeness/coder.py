"""A job as numbers: its user, its classes, and a code for each of its fields."""

from __future__ import annotations

import math
import re
from operator import attrgetter
from typing import Any
from zlib import crc32

from ...job import JobRequest
from .memory import CLASSES, FIELDS

DIGITS = re.compile(r"\d+")
_PLAIN = attrgetter(*FIELDS[:-1])


def field_code(value: Any) -> int:
    """A whole number for a value, the same in every process; 0 for unknown.

    >>> field_code(None), field_code(7) == field_code(7), field_code("ada") == field_code("eve")
    (0, True, False)
    """
    if value is None:
        return 0
    if type(value) is int and 0 <= value < 1 << 60:
        return value + 1
    return crc32(repr(value).encode("utf-8", "surrogatepass")) + (1 << 61)


def name_stem(name: Any) -> Any:
    """A job's name without its numbers, so that `wing_012` and `wing_013` are alike; None where there is none.

    >>> name_stem("wing_012"), name_stem(None)
    ('wing_#', None)
    """
    return DIGITS.sub("#", name) if isinstance(name, str) else None


class Coder:
    """Numbers users and classes in order of appearance; what it holds is two dictionaries' worth of names."""

    def __init__(self) -> None:
        self.users: dict[Any, int] = {}
        self.classes: tuple[dict[Any, int], ...] = tuple({} for _ in range(CLASSES))

    def row(self, job: JobRequest) -> tuple[int, ...]:
        """User, classes, and the codes of FIELDS, as `steps.note` takes them.

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
        """The largest number of classes of one kind."""
        return max(len(known) for known in self.classes)
