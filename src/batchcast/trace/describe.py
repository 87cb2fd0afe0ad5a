# SPDX-License-Identifier: Apache-2.0
"""What a log holds, in figures: spans, sizes, known fields, how users' requests compare with what they used."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..columns import COLUMNS
from ..events.recorded import irregular, outcome
from ..table import Nominal, Trace
from ..table.memory import memory_use
from .clean import would_drop
from .implied.machine import peak_procs

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
            different = len(np.unique(values.codes[known]))
        else:
            known = ~np.isnan(values) if values.dtype.kind == "f" else np.ones(len(trace), dtype=bool)
            different = len(np.unique(values[known]))
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


def cleaning(trace: Trace) -> list[dict[str, Any]]:
    """What each cleaning rule alone would drop."""
    return [{"rule": rule, "drops": count, "meaning": meaning} for rule, meaning, count in would_drop(trace)]


def irregularities(trace: Trace) -> list[dict[str, Any]]:
    """What the recorded clock has to settle by rule, with how often."""
    return [{"irregularity": what, "jobs": count} for what, count in irregular(trace).items()]


def _median(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else float("nan")


def _mean(values: np.ndarray | Iterable[float]) -> float:
    array = np.asarray(values, dtype=float)
    known = array[~np.isnan(array)]
    return float(known.mean()) if len(known) else float("nan")
