"""Values no machine can have seen: read as unknown, or the record left out, and counted either way."""

from __future__ import annotations

import numpy as np

from ..columns import COLUMNS
from ..errors import input_error
from ..table import Trace
from ..table.memory import share_of

CENTURY = 100 * 365.25 * 86400.0  # no job ran or waited so long, and no log spans it
MOST_PROCS = 1e9
MOST_REQUEST = 3 * 365.25 * 86400.0  # no site lets a job run so long: INT_MAX seconds, 23 years are slips of the pen
MOST_MEMORY = 1024.0**4  # KiB of a node, or of a processor where a log knows no nodes
_LIMITS = {
    "s": (CENTURY, "more than 100 years"),
    "processors": (MOST_PROCS, "more than 1e9 processors"),
    "KiB": (MOST_MEMORY, "more than a pebibyte a node or processor"),
}
_OWN_LIMITS = {"req_time": (MOST_REQUEST, "more than 3 years")}


def without_absurd(trace: Trace, *, strict: bool = False) -> Trace:
    """The trace with durations beyond a century, requests beyond three years, counts beyond 1e9 processors and memory
    beyond a pebibyte (of a node, else of a processor) unknown, and without records whose submission lies
    more than a century from the median one.

    A single such value would otherwise set the scale of every mean, axis and simulated clock. What was changed is in
    `info.notes` and `info.dropped`; with `strict` the first raises InputError. O(values); nothing is copied from a
    log without such values.

    >>> log = Trace.from_arrays({"job_id": [1, 2], "submit_time": [0, 9], "run_time": [60, 1e18]})
    >>> kept = without_absurd(log); kept.run_time.tolist(), kept.info.notes
    ([60.0, nan], ('1 values of run_time: more than 100 years, read as unknown (first: job 2: 1e+18)',))
    """
    info, changed = trace.info, {}
    for name in trace.names:
        column = COLUMNS.get(name)
        if column is None or column.unit not in _LIMITS or name in ("submit_time", "eligible_time"):
            continue
        limit, words = _OWN_LIMITS.get(name, _LIMITS[column.unit])
        values = trace.number(name)
        beyond = (share_of(trace, name) if column.unit == "KiB" else values) > limit
        if not beyond.any():
            continue
        first = int(np.argmax(beyond))
        what = f"values of {name}: {words}, read as unknown"
        where = f"job {trace.job_id[first]}: {values[first]:g}"
        if strict:
            raise input_error(info.source, f"{name}: {words}", value=where, hint="leave --strict out to read on")
        info = info.with_note(f"{int(beyond.sum())} {what} (first: {where})")
        changed[name] = np.where(beyond, np.nan, values)
    if changed:
        trace = trace.with_columns(changed, info)
    return _without_strays(trace, strict)


def _without_strays(trace: Trace, strict: bool) -> Trace:
    """The trace without submissions a century from the median one; they stand at the ends, a trace is sorted."""
    times = trace.submit_time
    if not len(times):
        return trace
    middle = times[len(times) // 2]
    first, last = np.searchsorted(times, [middle - CENTURY, np.nextafter(middle + CENTURY, np.inf)])
    if last - first == len(times):
        return trace
    rule = "submitted a century from the rest"
    if strict:
        job = trace.job_id[0 if first else -1]
        raise input_error(trace.info.source, f"{rule}: job {job}", hint="leave --strict out to read on")
    info = trace.info.with_dropped(rule, len(times) - int(last - first))
    return trace.take(np.arange(first, last), info)
