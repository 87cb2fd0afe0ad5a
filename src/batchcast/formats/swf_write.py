# SPDX-License-Identifier: Apache-2.0
"""A trace as the lines of an SWF log."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ..columns import COLUMNS, SWF_FIELDS
from ..table import Nominal, Trace
from ..table.memory import per_processor
from .status import status_to_swf

ROWS = 65_536
_OWN = ("UnixStartTime", "TimeZone", "TimeZoneString", "MaxProcs", "MaxNodes", "MaxRecords", "Version", "columns")


def write_lines(trace: Trace) -> Iterator[str]:
    """The lines of an SWF log, header first, without line ends; unknown is -1.

    Numbers keep their value exactly; names of users, queues and so on that are text become numbers from 1 (queues and
    partitions are named in the header); job ids that are text become row numbers; a status becomes SWF's nearest;
    memory of whole jobs becomes that of a processor. A log on the epoch's own clock gets its first submission as
    UnixStartTime. What SWF has no field for is left out.

    >>> log = Trace.from_arrays({"submit_time": [0], "run_time": [2.5], "status": ["timeout"], "user_id": ["ada"]})
    >>> list(write_lines(log))[-1]
    '1 0 -1 2.5 -1 -1 -1 -1 -1 -1 0 1 -1 -1 -1 -1 -1 -1'
    """
    for text in write_chunks(trace):
        yield from text.splitlines()


def write_chunks(trace: Trace, rows: int = ROWS) -> Iterator[str]:
    """The same as text with line ends, the header and then `rows` lines at a time: memory does not grow with the log.

    >>> len(list(write_chunks(Trace.from_arrays({"submit_time": [0, 1, 2]}), rows=2)))
    3
    """
    start = trace.info.unix_start
    if start == 0 and len(trace):
        start = math.floor(trace.submit_time[0])
    yield "".join(f"{line}\n" for line in _header(trace, start))
    for first in range(0, len(trace), rows):
        part = slice(first, min(first + rows, len(trace)))
        columns = [_field(trace, name, start - trace.info.unix_start, part) for name in SWF_FIELDS]
        yield "".join(f"{' '.join(row)}\n" for row in zip(*columns))


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


def _field(trace: Trace, name: str, shift: float, part: slice) -> list[str]:
    if name not in trace.names:
        return ["-1"] * (part.stop - part.start)
    if name == "job_id":
        ids = trace.job_id
        return [
            str(k) for k in (ids[part].tolist() if ids.dtype.kind in "iu" else range(part.start + 1, part.stop + 1))
        ]
    if name == "status":
        status = trace.nominal(name)
        numbers = [str(status_to_swf(str(word))) for word in status.categories] + ["-1"]
        return [numbers[code] for code in status.codes[part].tolist()]
    if COLUMNS[name].kind == "nominal":
        values = trace.nominal(name)
        words = [str(number) for number in _numbers(values)] + ["-1"]
        return [words[code] for code in values.codes[part].tolist()]
    numbers_ = trace.number(name)[part]
    if name == "submit_time":
        numbers_ = numbers_ - shift
    if COLUMNS[name].unit == "KiB" and trace.info.memory_per == "job":
        numbers_ = per_processor(trace, name)[part]
    if (np.floor(numbers_) == numbers_).all() and (np.abs(numbers_) < 2**53).all():
        return list(map(str, numbers_.astype(np.int64).tolist()))
    return [_text(value) for value in numbers_.tolist()]


def _numbers(values: Nominal) -> list[int]:
    """A number for each category: itself where all are numbers, else its place from 1."""
    if all(isinstance(v, (int, np.integer)) for v in values.categories):
        return [int(v) for v in values.categories]
    return list(range(1, len(values.categories) + 1))


def _text(value: float) -> str:
    if math.isnan(value) or math.isinf(value):
        return "-1"
    return str(int(value)) if value == int(value) else repr(value)
