# SPDX-License-Identifier: Apache-2.0
"""Cleaning: named rules, each counted; nothing is cleaned unless asked for.

Values that no machine can have seen are a rule of their own. What it holds is told in figures: spans, sizes, known
fields, how users' requests compare with what they used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ..columns import COLUMNS
from ..errors import NoAnswer, UsageError, input_error
from ..events.recorded import irregular, outcome
from ..machines.learned.machine import peak_procs
from ..table import Nominal, Trace
from ..table.memory import memory_use, share_of
from .repeats import last_of_each_number

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
    """Records that repeat a job number of the same cluster; the last in log order stays."""
    return {"a repeated job number": ~last_of_each_number(trace)}


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


def cleaning(trace: Trace) -> list[dict[str, Any]]:
    """What each cleaning rule alone would drop."""
    rows = []
    for name, masks in RULES.items():
        gone = np.zeros(len(trace), dtype=bool)
        for mask in masks(trace).values():
            gone |= mask
        rows.append({"rule": name, "drops": int(gone.sum()), "meaning": str(masks.__doc__)})
    return rows


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


_LOW, _MOST_USED = 0.1, 5


def summary(trace: Trace, procs: str = "req") -> dict[str, Any]:
    """Counts, spans, load and typical values; NaN where the log does not know. O(n log n).

    `load` is what ran, in processor-seconds, over machine times span (first submission to last end); `peak_procs` the
    most processors recorded jobs held at once.
    """
    submit, wait, run = outcome(trace)
    ran = ~np.isnan(run)
    width = trace.procs(procs)
    end = submit + wait + np.where(ran, run, 0.0)
    span = float(end.max() - submit.min()) if len(trace) else float("nan")
    machine = trace.info.max_procs
    work = float(np.nansum(run * width))
    return {
        "jobs": len(trace),
        "ran": int(ran.sum()),
        "never_ran": int((~ran).sum()),
        "span_s": span,
        "jobs_per_day": len(trace) / span * 86400.0 if span > 0 else float("nan"),
        "peak_procs": peak_procs(trace, procs),
        "widest_job_procs": float(np.nanmax(width)) if (~np.isnan(width)).any() else float("nan"),
        "jobs_wider_than_machine": int((width > machine).sum()),
        "load": work / (machine * span) if span > 0 and work > 0 else float("nan"),
        "median_run_s": _median(run[ran]),
        "mean_run_s": _mean(run[ran]),
        "median_wait_s": _median(trace.wait_time[ran]),
        "mean_wait_s": _mean(trace.wait_time[ran]),
        "median_procs": _median(width),
        **request_use(trace),
    }


def request_use(trace: Trace) -> dict[str, Any]:
    """How much of their requested time jobs used, over jobs that ran and had a request above 0.

    `request_used_median` is the median of run / request, `request_used_total` sum(run) / sum(request); shares of jobs
    below 10 % and above 100 %; `whole_hour_requests` is the share of requests that are whole hours, and
    `usual_requests` the share of the five requests most used, which `usual_requests_s` lists.

    >>> use = request_use(Trace.from_arrays({"run_time": [60.0, 3600.0], "req_time": [3600.0, 3600.0]}))
    >>> use["request_used_below_10"], use["usual_requests_s"], use["whole_hour_requests"]
    (0.5, [3600.0], 1.0)
    """
    run, request = trace.run_time, trace.req_time
    both = ~np.isnan(run) & (request > 0)
    used = run[both] / request[both]
    values, counts = np.unique(request[request > 0], return_counts=True)
    top = np.argsort(-counts, kind="stable")[:_MOST_USED]
    asked = float(counts.sum())
    return {
        "jobs_with_run_and_request": int(both.sum()),
        "request_used_median": _median(used),
        "request_used_total": float(run[both].sum() / request[both].sum()) if both.any() else float("nan"),
        "request_used_below_10": _mean(used < _LOW),
        "request_used_above_100": _mean(used > 1.0),
        "distinct_requests": len(values),
        "whole_hour_requests": float(counts[values % 3600 == 0].sum() / asked) if asked else float("nan"),
        "usual_requests": float(counts[top].sum() / asked) if asked else float("nan"),
        "usual_requests_s": values[top].tolist(),
    }


def memory(trace: Trace) -> dict[str, Any]:
    """What the log knows of memory, KiB per `per`: jobs that know a request, a measured peak, both; medians; how much
    of the requests was used, jobs above theirs, jobs out of memory; `copied`, the share in which use equals request.

    >>> log = Trace.from_arrays({"req_procs": [1, 1], "req_mem_kib": [100.0, 100.0], "used_mem_kib": [25.0, 150.0]})
    >>> found = memory(log); found["per"], found["both"], found["used_total"], found["above"]
    ('processor', 2, 0.875, 0.5)
    """
    use = memory_use(trace)
    asked, used = ~np.isnan(use.asked), ~np.isnan(use.used) & ~use.ended
    both = asked & used
    return {
        "per": use.per,
        "asked": int(asked.sum()),
        "measured": use.known,
        "both": int(both.sum()),
        "zeros": use.zeros,
        "out_of_memory": int(use.ended.sum()),
        "copied": use.copied,
        "median_asked_kib": _median(use.asked),
        "median_used_kib": _median(use.used[used]),
        "largest_used_kib": float(use.used[used].max()) if used.any() else float("nan"),
        "used_total": float(use.used[both].sum() / use.asked[both].sum()) if both.any() else float("nan"),
        "above": _mean(use.used[both] > use.asked[both]),
    }


def known_fields(trace: Trace) -> list[dict[str, Any]]:
    """Of every field that some job knows: the share of jobs that know it, and how many different values there are."""
    rows = []
    for name in (*COLUMNS, *trace.extra_names):
        values = trace.column(name) if name in trace.names else None
        if values is None:
            continue
        if isinstance(values, Nominal):
            known = values.is_known()
            different = _distinct(values.codes[known])
        else:
            known = ~np.isnan(values) if values.dtype.kind == "f" else np.ones(len(trace), dtype=bool)
            different = _distinct(values[known])
        meaning = COLUMNS[name].meaning if name in COLUMNS else "an extra column"
        rows.append({"field": name, "known": _mean(known), "distinct": different, "meaning": meaning})
    return rows


def endings(trace: Trace) -> list[dict[str, Any]]:
    """How jobs ended, the most frequent first."""
    status = trace.nominal("status")
    counts = np.bincount(status.codes + 1, minlength=len(status.categories) + 1)
    named = zip(["unknown", *status.categories], counts.tolist())
    rows = [{"status": str(name), "jobs": count, "share": count / len(trace)} for name, count in named if count]
    return sorted(rows, key=lambda row: -row["jobs"])


def irregularities(trace: Trace) -> list[dict[str, Any]]:
    """What the recorded clock has to settle by rule, with how often."""
    return [{"irregularity": what, "jobs": count} for what, count in irregular(trace).items()]


def _median(values: np.ndarray) -> float:
    """As `np.median`, which loads masked arrays first, and `info` needs none."""
    known = np.sort(values[~np.isnan(values)])
    n = len(known)
    return float((known[(n - 1) // 2] + known[n // 2]) / 2.0) if n else float("nan")


def _distinct(values: np.ndarray) -> int:
    """How many different values; without `np.unique` for the same reason."""
    ordered = np.sort(values)
    return int((ordered[1:] != ordered[:-1]).sum()) + 1 if len(values) else 0


def _mean(values: np.ndarray | Iterable[float]) -> float:
    array = np.asarray(values, dtype=float)
    known = array[~np.isnan(array)]
    return float(known.mean()) if len(known) else float("nan")
