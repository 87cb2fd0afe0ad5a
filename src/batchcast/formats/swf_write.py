"""A trace as the lines of an SWF log."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ..columns import COLUMNS, SWF_FIELDS
from ..table import Nominal, Trace
from .status import status_to_swf

_OWN = ("UnixStartTime", "TimeZone", "TimeZoneString", "MaxProcs", "MaxNodes", "MaxRecords", "Version", "columns")


def write_lines(trace: Trace) -> Iterator[str]:
    """The lines of an SWF log, header first, without line ends; unknown is -1.

    Numbers keep their value exactly; names of users, queues and so on that are text become numbers from 1 (queues and
    partitions are named in the header); job ids that are text become row numbers; a status becomes SWF's nearest. A
    log on the epoch's own clock gets its first submission as UnixStartTime. What SWF has no field for is left out.

    >>> log = Trace.from_arrays({"submit_time": [0], "run_time": [2.5], "status": ["timeout"], "user_id": ["ada"]})
    >>> list(write_lines(log))[-1]
    '1 0 -1 2.5 -1 -1 -1 -1 -1 -1 0 1 -1 -1 -1 -1 -1 -1'
    """
    start = trace.info.unix_start
    if start == 0 and len(trace):
        start = math.floor(trace.submit_time[0])
    yield from _header(trace, start)
    columns = [_field(trace, name, start - trace.info.unix_start) for name in SWF_FIELDS]
    for row in zip(*columns):
        yield " ".join(row)


def _header(trace: Trace, start: float) -> Iterator[str]:
    info = trace.info
    yield "; Version: 2.2"
    for key, value in info.header.items():
        if key not in _OWN and "\n" not in value:
            yield f"; {key}: {value}"
    yield f"; MaxRecords: {len(trace)}"
    yield f"; UnixStartTime: {_text(start)}"
    yield f"; TimeZoneString: {info.timezone}"
    for key, amount in (("MaxNodes", info.max_nodes), ("MaxProcs", info.max_procs)):
        if amount > 0:
            yield f"; {key}: {_text(amount)}"
    for key, column in (("Queue", "queue_id"), ("Partition", "partition_id")):
        values = trace.nominal(column)
        names = dict(info.names.get(column, {}))
        names.update({k: str(v) for v, k in zip(values.categories, _numbers(values)) if isinstance(v, str)})
        for number, name in names.items():
            yield f"; {key}: {number} {' '.join(name.split())}"


def _field(trace: Trace, name: str, shift: float) -> list[str]:
    if name == "job_id":
        ids = trace.job_id
        return [str(k) for k in (ids.tolist() if ids.dtype.kind in "iu" else range(1, len(ids) + 1))]
    if name == "status":
        status = trace.nominal(name)
        numbers = [str(status_to_swf(str(word))) for word in status.categories] + ["-1"]
        return [numbers[code] for code in status.codes.tolist()]
    if COLUMNS[name].kind == "nominal":
        values = trace.nominal(name)
        words = [str(number) for number in _numbers(values)] + ["-1"]
        return [words[code] for code in values.codes.tolist()]
    numbers_ = trace.number(name)
    return [_text(value) for value in (numbers_ - shift if name == "submit_time" else numbers_).tolist()]


def _numbers(values: Nominal) -> list[int]:
    """A number for each category: itself where all are numbers, else its place from 1."""
    if all(isinstance(v, (int, np.integer)) for v in values.categories):
        return [int(v) for v in values.categories]
    return list(range(1, len(values.categories) + 1))


def _text(value: float) -> str:
    if math.isnan(value) or math.isinf(value):
        return "-1"
    return str(int(value)) if value == int(value) else repr(value)
