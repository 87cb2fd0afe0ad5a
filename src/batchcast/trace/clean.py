"""Cleaning: named rules, each counted. Nothing is cleaned unless asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from ..errors import NoAnswer, UsageError
from ..table import Trace

Masks = Mapping[str, np.ndarray]


def reference(trace: Trace) -> Masks:
    """Rules of the published reference schedules: no run time, no allocated processors or no request goes."""
    return {
        "no run time": ~(trace.run_time > 0),
        "no allocated processors": ~(trace.number("alloc_procs") > 0),
        "no request": ~(trace.req_time > 0),
    }


def no_run(trace: Trace) -> Masks:
    """Jobs that never ran, or whose run time is unknown."""
    return {"no run time": np.isnan(trace.run_time)}


def zero_run(trace: Trace) -> Masks:
    """Jobs that ran for zero seconds."""
    return {"run time 0": trace.run_time == 0}


def no_procs(trace: Trace) -> Masks:
    """Jobs with neither requested nor allocated processors."""
    return {"no processors": np.isnan(trace.procs())}


def no_request(trace: Trace) -> Masks:
    """Jobs without a requested time."""
    return {"no request": ~(trace.req_time > 0)}


def wide(trace: Trace) -> Masks:
    """Jobs wider than the machine (none where its size is unknown)."""
    return {"wider than the machine": trace.procs() > trace.info.max_procs}


def partial(trace: Trace) -> Masks:
    """Pieces of checkpointed jobs (SWF status 2, 3, 4), whose whole stands in a line of its own."""
    status = trace.nominal("status")
    pieces = np.array([str(word).startswith("partial") for word in status.categories] + [False], dtype=bool)
    return {"a piece of a job": pieces[status.codes]}


def duplicates(trace: Trace) -> Masks:
    """Records that repeat a job number; the last in log order stays."""
    _, last = np.unique(trace.job_id[::-1], return_index=True)
    gone = np.ones(len(trace), dtype=bool)
    gone[len(trace) - 1 - last] = False
    return {"a repeated job number": gone}


RULES: Mapping[str, Callable[[Trace], Masks]] = MappingProxyType(
    {rule.__name__: rule for rule in (reference, no_run, zero_run, no_procs, no_request, wide, partial, duplicates)}
)


def clean(trace: Trace, rules: Sequence[str]) -> Trace:
    """The trace without the records the named rules drop, applied in the given order; counts in `info.dropped`.

    `reference` also cuts the run time to the request and the processors (allocated) to the machine, and notes how
    often; readers then count with the allocated processors (`--procs alloc`). Raises UsageError for an unknown rule,
    NoAnswer when nothing is left.

    >>> log = Trace.from_arrays({"submit_time": [0.0, 1.0], "run_time": [5.0, None]})
    >>> kept = clean(log, ["no_run"]); len(kept), dict(kept.info.dropped)
    (1, {'clean no_run: no run time': 1})
    """
    for name in rules:
        info, keep = trace.info, np.ones(len(trace), dtype=bool)
        for reason, mask in rule(name)(trace).items():
            info = info.with_dropped(f"clean {name}: {reason}", int((keep & mask).sum()))
            keep &= ~mask
        if not keep.any():
            raise NoAnswer(f"cleaning by {name!r} leaves no job", hint="`batchcast info` shows what each rule drops")
        trace = trace.take(keep, info) if not keep.all() else trace.with_info(info)
        if name == "reference":
            trace = _cut_to_reference(trace)
    return trace


def rule(name: str) -> Callable[[Trace], Masks]:
    """The rule of a name; UsageError names the accepted ones."""
    if name not in RULES:
        raise UsageError(f"not a cleaning rule: {name!r} (accepted: {', '.join(RULES)})")
    return RULES[name]


def would_drop(trace: Trace) -> Iterable[tuple[str, str, int]]:
    """What each rule alone would drop: (rule, its meaning in a line, records)."""
    for name, masks in RULES.items():
        gone = np.zeros(len(trace), dtype=bool)
        for mask in masks(trace).values():
            gone |= mask
        yield name, str(masks.__doc__), int(gone.sum())


def _cut_to_reference(trace: Trace) -> Trace:
    run, request, procs = trace.run_time, trace.req_time, trace.number("alloc_procs")
    over, wider = run > request, procs > trace.info.max_procs
    info = trace.info
    if over.any():
        info = info.with_note(f"clean reference: the run time of {int(over.sum())} jobs was cut to the request")
    if wider.any():
        info = info.with_note(f"clean reference: the processors of {int(wider.sum())} jobs were cut to the machine's")
    columns = {"run_time": np.where(over, request, run), "alloc_procs": np.where(wider, trace.info.max_procs, procs)}
    return trace.with_columns(columns, info)
