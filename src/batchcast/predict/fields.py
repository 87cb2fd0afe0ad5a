"""Fields of a request by name, and the class a job falls into when jobs equal on some fields are taken together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..job import JobRequest
from ..table import Trace

_OWN = frozenset(JobRequest._fields) - {"row", "job_id", "extra"}


def field_value(job: JobRequest, name: str) -> Any:
    """A field known at submission, the house's own or an extra column; None when unknown.

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


def unknown_fields(method: Any, trace: Trace) -> tuple[str, ...]:
    """Of the fields a predictor says it `uses`, those no job of the log knows: what a table should mark.

    A predictor without the attribute `uses` reads nothing that could be missing. `procs` is known when requested or
    allocated processors are. O(n) a field.
    """
    return tuple(name for name in getattr(method, "uses", ()) if not _known(trace, name))


def _known(trace: Trace, name: str) -> bool:
    if name in ("procs", "procs_log2"):
        return bool((trace.procs() > 0).any())
    if name not in trace.names:
        return False
    column = trace.column(name)
    known = column.is_known() if hasattr(column, "is_known") else column == column
    return bool(known.any())
