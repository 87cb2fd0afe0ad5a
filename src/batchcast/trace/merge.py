# SPDX-License-Identifier: Apache-2.0
"""Several logs as one, on one clock."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ..errors import InputError, worded
from ..table import LogInfo, Nominal, Trace, Values
from ..table.columns import INSTANTS
from ..table.joined import joined, summed_notes

DATED = 1e8
"""A clock that has passed this second counts from 1970: no log spans the three years of a clock that began at 0."""


def merged(traces: Sequence[Trace]) -> Trace:
    """The jobs of several logs on one clock, in log order; repeated records stay (see `trace.repeats`).

    Differences that do not change a job are noted: formats, time zones, sizes of the machine, meanings of a header's
    numbers. Raises InputError if only some of the logs know the dates of their jobs. O(jobs).

    >>> from batchcast.trace.merge import merged
    >>> a = Trace.from_arrays({"submit_time": [0.0]}, LogInfo(source="a.swf", unix_start=2e9, max_procs=8.0))
    >>> b = Trace.from_arrays({"submit_time": [5.0]}, LogInfo(source="b.swf", unix_start=1e9, max_procs=8.0))
    >>> both = merged([a, b])
    >>> both.submit_time.tolist(), both.info.unix_start, both.info.source
    ([5.0, 1000000000.0], 1000000000.0, 'a.swf, b.swf')
    """
    if len(traces) == 1:
        return traces[0]
    dated = [_is_dated(trace) for trace in traces]
    if any(dated) and not all(dated):
        known, unknown = (traces[dated.index(which)].info.source for which in (True, False))
        raise InputError(
            f"{unknown} does not say when its clock began, {known} does: their jobs cannot be put in one order",
            hint="a UnixStartTime line in the header of the first, or each log by itself",
        )
    notes = [] if any(dated) else ["no log says when its clock began (UnixStartTime): their clocks are taken as one"]
    whole = len({trace.info.memory_per for trace in traces}) > 1
    start = min(trace.info.unix_start for trace in traces)
    info = _one_info([trace.info for trace in traces], start, notes)
    pieces = [_on_clock(_of_whole_jobs(trace) if whole else trace, start) for trace in traces]
    return joined(pieces, replace(info, memory_per="job") if whole else info)


def _is_dated(trace: Trace) -> bool:
    """Whether the log's clock counts from a known date."""
    return trace.info.unix_start > 0 or bool(len(trace) and trace.submit_time[-1] > DATED)


def _on_clock(trace: Trace, start: float) -> Trace:
    """The trace on a clock that reads 0 at the epoch second `start`."""
    shift = trace.info.unix_start - start
    columns = {name: trace.column(name) for name in trace.names}
    moved: dict[str, Values] = {
        name: values + shift if name in INSTANTS and not isinstance(values, Nominal) else values
        for name, values in columns.items()
    }
    return Trace(moved, trace.info, is_sorted=True)


def _of_whole_jobs(trace: Trace) -> Trace:
    """The trace with its memory columns as amounts of whole jobs."""
    names = [name for name in ("req_mem_kib", "used_mem_kib") if name in trace.names]
    if trace.info.memory_per == "job" or not names:
        return trace
    rule = {"req_mem_kib": "req", "used_mem_kib": "alloc"}
    return trace.with_columns({name: trace.number(name) * trace.procs(rule[name]) for name in names})


def _one_info(infos: Sequence[LogInfo], start: float, notes: Sequence[str]) -> LogInfo:
    """Where the jobs of several logs came from, with a note for each difference between the logs."""
    said = list(notes)
    formats = list(dict.fromkeys(info.format for info in infos))
    if len(formats) > 1:
        said.append(f"the logs have different formats ({', '.join(formats)}): a field that only some know is unknown in"
                    " the others, and names of users are compared as written")  # fmt: skip
    if len({info.timezone for info in infos}) > 1:
        zones = ", ".join(f"{info.source}: {info.timezone}" for info in infos)
        said.append(worded(f"the logs have different time zones ({zones}): dates are those of {infos[0].timezone};"
                           " --timezone NAME says another"))  # fmt: skip
    sizes = {info.max_procs for info in infos if info.max_procs > 0}
    if len(sizes) > 1:
        each = ", ".join(f"{info.source}: {info.max_procs:,.0f}" for info in infos if info.max_procs > 0)
        said.append(worded(f"the logs name machines of different sizes ({each} processors): the largest is taken;"
                           " --procs-total N says another"))  # fmt: skip
    largest = max(infos, key=lambda info: info.max_procs if info.max_procs > 0 else 0.0)
    names = {column: dict(words) for column, words in infos[0].names.items()}
    for info in infos[1:]:
        for column, words in info.names.items():
            ours = names.setdefault(column, {})
            unlike = [number for number, word in words.items() if ours.get(number, word) != word]
            if unlike:
                said.append(f"{column} {unlike[0]} is {ours[unlike[0]]!r} in one log and {words[unlike[0]]!r} in"
                            f" {info.source}: the numbers may not mean the same")  # fmt: skip
            names[column] = {**words, **ours}
    names_of = [info.source for info in infos]
    dropped: Counter[str] = Counter()
    for info in infos:
        dropped.update(info.dropped)
    return replace(
        infos[0],
        source=", ".join(names_of[:3]) + (f" and {len(names_of) - 3} more logs" if len(names_of) > 3 else ""),
        format=", ".join(formats),
        sha256=hashlib.sha256("\n".join(info.sha256 for info in infos).encode()).hexdigest(),
        unix_start=start,
        max_procs=largest.max_procs,
        max_procs_source=largest.max_procs_source,
        max_nodes=max((info.max_nodes for info in infos if info.max_nodes > 0), default=float("nan")),
        header={key: value for info in reversed(infos) for key, value in info.header.items()},
        names=names,
        dropped=dict(dropped),
        notes=tuple(summed_notes([note for info in infos for note in info.notes]) + said),
    )
