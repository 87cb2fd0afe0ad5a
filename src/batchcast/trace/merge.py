# SPDX-License-Identifier: Apache-2.0
"""Merge several logs into one, on one clock."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ..errors import InputError, worded
from ..table import LogInfo, Trace
from ..table.columns import INSTANTS
from ..table.trace import joined, summed_notes

DATED = 1e8
"""If a log's clock has passed this second (1973), it counts from 1970, because no log is three years long."""


def merged(traces: Sequence[Trace]) -> Trace:
    """Merge the jobs of several logs, in log order. Repeated records are kept (see `trace.clean`).

    Parameters
    ----------
    traces
        The logs.

    Returns
    -------
    Trace
        The log's notes describe differences between the logs: formats, time zones, machine sizes, meanings of numbers.

    Raises
    ------
    InputError
        If some of the logs have dates and others do not.

    Examples
    --------
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
        why = f"does not have the date at which its clock began, but {known} has: their jobs cannot be ordered"
        hint = f"add a UnixStartTime line to the header of {unknown}, or read each log by itself"
        raise InputError(f"{unknown} {why}", hint=hint)
    notes = [] if any(dated) else ["no log has the date of its clock (UnixStartTime): one common clock is assumed"]
    whole = len({trace.info.memory_per for trace in traces}) > 1
    start = min(trace.info.unix_start for trace in traces)
    info = _one_info([trace.info for trace in traces], start, notes)
    pieces = [_on_clock(_of_whole_jobs(trace) if whole else trace, start) for trace in traces]
    return joined(pieces, replace(info, memory_per="job") if whole else info)


def _is_dated(trace: Trace) -> bool:
    """Whether the log's clock counts seconds from a known date."""
    return trace.info.unix_start > 0 or bool(len(trace) and trace.submit_time[-1] > DATED)


def _on_clock(trace: Trace, start: float) -> Trace:
    """Returns the log on a clock that reads 0 at the epoch second `start`."""
    shift = trace.info.unix_start - start
    moved = {name: trace.number(name) + shift for name in INSTANTS if name in trace.names}
    return Trace({**trace.columns(), **moved}, trace.info, is_sorted=True)


def _of_whole_jobs(trace: Trace) -> Trace:
    """Returns the log with memory columns for whole jobs."""
    names = [name for name in ("req_mem_kib", "used_mem_kib") if name in trace.names]
    if trace.info.memory_per == "job" or not names:
        return trace
    procs = {"req_mem_kib": trace.procs("req"), "used_mem_kib": trace.procs("alloc")}
    return trace.with_columns({name: trace.number(name) * procs[name] for name in names})


def _one_info(infos: Sequence[LogInfo], start: float, notes: Sequence[str]) -> LogInfo:
    """Returns the provenance (sources, zone, notes) of the merged log, with a note for each difference between the
    logs."""
    new_notes = list(notes)
    formats = list(dict.fromkeys(info.format for info in infos))
    if len(formats) > 1:
        rule = (
            "a field that only some of them have is unknown in the others, and names of users are compared as written"
        )
        new_notes.append(f"the logs have different formats ({', '.join(formats)}): {rule}")
    if len({info.timezone for info in infos}) > 1:
        zones = ", ".join(f"{info.source}: {info.timezone}" for info in infos)
        new_notes.append(worded(f"the logs have different time zones ({zones}): dates are shown in {infos[0].timezone};"
                                " choose another zone with --timezone NAME"))  # fmt: skip
    sizes = {info.max_procs for info in infos if info.max_procs > 0}
    if len(sizes) > 1:
        each = ", ".join(f"{info.source}: {info.max_procs:,.0f}" for info in infos if info.max_procs > 0)
        new_notes.append(worded(f"the logs name machines of different sizes ({each} processors): the largest is used;"
                                " choose another size with --procs-total N"))  # fmt: skip
    largest = max(infos, key=lambda info: info.max_procs if info.max_procs > 0 else 0.0)
    names = {column: dict(words) for column, words in infos[0].names.items()}
    for info in infos[1:]:
        for column, words in info.names.items():
            merged_words = names.setdefault(column, {})
            for number in [n for n, word in words.items() if merged_words.get(n, word) != word][:1]:
                both = f"{merged_words[number]!r} in one log and {words[number]!r} in {info.source}"
                new_notes.append(f"{column} {number} is {both}: the numbers may have different meanings")
            names[column] = {**words, **merged_words}
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
        notes=tuple(summed_notes([note for info in infos for note in info.notes]) + new_notes),
    )
