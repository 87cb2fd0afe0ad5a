"""How big the machine must have been, from what ran on it at once."""

from __future__ import annotations

import re

import numpy as np

from ..events.recorded import outcome
from ..table import Trace


def peak_procs(trace: Trace, rule: str = "alloc") -> float:
    """The most processors the recorded jobs ever held at once; NaN when no job has both a run time and processors.

    Starts and ends are the recorded clock's (a job without a wait starts at submit). At one instant ends come first,
    so a job that follows another on the same processors does not count twice. O(n log n).

    >>> log = Trace.from_arrays({"submit_time": [0, 5, 10], "run_time": [10, 10, 5], "alloc_procs": [4, 2, 4]})
    >>> peak_procs(log)
    6.0
    """
    _, held = _held(trace, rule)
    return float(held.max()) if len(held) else float("nan")


def over_size(trace: Trace, size: float, rule: str = "alloc") -> float:
    """The share of the recorded jobs' processor time that they held beyond a machine's size; 0 where nothing is known.

    >>> log = Trace.from_arrays({"submit_time": [0, 5, 10], "run_time": [10, 10, 5], "alloc_procs": [4, 2, 4]})
    >>> over_size(log, 4.0), over_size(log, 6.0)
    (0.25, 0.0)
    """
    time, held = _held(trace, rule)
    length = np.diff(time)
    whole = float((held[:-1] * length).sum()) if len(time) else 0.0
    return float((np.maximum(held[:-1] - size, 0.0) * length).sum()) / whole if whole > 0 else 0.0


def _held(trace: Trace, rule: str) -> tuple[np.ndarray, np.ndarray]:
    """Instants at which jobs start or end, in order, and the processors held from each on."""
    submit, wait, run = outcome(trace)
    procs = trace.procs(rule)
    ran = (run > 0) & (procs > 0)
    start = (submit + wait)[ran]
    time = np.concatenate([start, start + run[ran]])
    change = np.concatenate([procs[ran], -procs[ran]])
    order = np.lexsort((change, time))
    return time[order], np.cumsum(change[order])


def partition_sizes(trace: Trace, rule: str = "req") -> dict[int | str, tuple[float, str]]:
    """How many processors each partition of a log has, and where that comes from, by partition id.

    The header's MaxProcs may list them in parentheses, in the order of its Partition lines (`1664 (72, 1368, 224)`);
    else the most that recorded jobs ever held at once stands in. A partition is never smaller than its widest job.

    >>> ran = {"submit_time": [0, 5], "run_time": [9, 9], "alloc_procs": [4, 2]}
    >>> partition_sizes(Trace.from_arrays({**ran, "partition_id": [1, 2]}))
    {1: (4.0, 'most used at once'), 2: (2.0, 'most used at once')}
    """
    partition, width = trace.nominal("partition_id"), np.nan_to_num(trace.procs(rule))
    listed = re.search(r"\(([\d,\s]+)\)", trace.info.header.get("MaxProcs", ""))
    listed_sizes = [float(word) for word in listed[1].split(",") if word.strip()] if listed else []
    named = list(trace.info.names.get("partition_id", {}))
    header = dict(zip(named, listed_sizes)) if len(named) == len(listed_sizes) else {}
    sizes: dict[int | str, tuple[float, str]] = {}
    for code, name in enumerate(partition.categories):
        rows = np.flatnonzero(partition.codes == code)
        if not len(rows):
            continue
        known = (header[name], "header") if name in header else (peak_procs(trace.take(rows)), "most used at once")
        widest = float(width[rows].max())
        sizes[name] = known if known[0] >= widest else (widest, "widest job")
    return sizes
