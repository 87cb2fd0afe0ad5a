# SPDX-License-Identifier: Apache-2.0
"""Clean a log by named rules, remove impossible values, and summarize a log in figures.

Rules are applied only if the user names them, and each rule counts the records that it drops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any

import numpy as np

from ..columns import COLUMNS
from ..errors import NoAnswer, UsageError, input_error, worded
from ..events.machine_size import peak_procs
from ..events.recorded import irregular, outcome
from ..table import Nominal, Trace, Values
from ..table.columns import is_known
from ..table.memory import memory_use, share_of

Masks = Mapping[str, np.ndarray]


def reference(trace: Trace) -> Masks:
    """Drop jobs without run time, allocated processors or time limit, as for the published reference schedules."""
    return {
        "no run time": ~(trace.run_time > 0),
        "no allocated processors": ~(trace.number("alloc_procs") > 0),
        "no request": ~(trace.req_time > 0),
    }


def no_run(trace: Trace) -> Masks:
    """Drop jobs that never ran or whose run time is unknown."""
    return {"no run time": np.isnan(trace.run_time)}


def zero_run(trace: Trace) -> Masks:
    """Drop jobs with a run time of 0 seconds."""
    return {"run time 0": trace.run_time == 0}


def no_procs(trace: Trace) -> Masks:
    """Drop jobs with neither requested nor allocated processors."""
    return {"no processors": np.isnan(trace.procs())}


def no_request(trace: Trace) -> Masks:
    """Drop jobs without a requested time limit."""
    return {"no request": ~(trace.req_time > 0)}


def wide(trace: Trace) -> Masks:
    """Drop jobs that are larger than the machine, if its size is known."""
    return {"wider than the machine": trace.procs() > trace.info.max_procs}


def partial(trace: Trace) -> Masks:
    """Drop parts of checkpointed jobs (SWF status 2, 3, 4), because the whole job has a separate record."""
    status = trace.nominal("status")
    pieces = [word for word in status.categories if str(word).startswith("partial")]
    return {"a record of a part of a job": status.is_any(pieces)}


def duplicates(trace: Trace) -> Masks:
    """Drop records that repeat a job number of the same cluster, except the last record in log order."""
    return {"a repeated job number": ~last_of_each_number(trace)}


RULES: Mapping[str, Callable[[Trace], Masks]] = MappingProxyType(
    {rule.__name__: rule for rule in (reference, no_run, zero_run, no_procs, no_request, wide, partial, duplicates)}
)


def clean(trace: Trace, rules: Sequence[str]) -> Trace:
    """Drop records by named rules (`RULES`), in the given order; NoAnswer if no job is left.

    >>> log = Trace.from_arrays({"submit_time": [0.0, 1.0], "run_time": [5.0, None]})
    >>> kept = clean(log, ["no_run"]); len(kept), dict(kept.info.dropped)
    (1, {'clean no_run: no run time': 1})
    """
    # `reference` also limits the run time to the time limit and the allocated processors to the machine, and adds a
    # note with the number of changed jobs. After the rule `reference`, use the allocated processors (`--procs alloc`).
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
    """Return the rule of a name; UsageError lists the accepted names."""
    if name not in RULES:
        raise UsageError(f"not a cleaning rule: {name!r} (accepted: {', '.join(RULES)})")
    return RULES[name]


def cleaning(trace: Trace) -> list[dict[str, Any]]:
    """Return, for each rule alone, how many records it would drop."""
    rows = []
    for name, masks in RULES.items():
        dropped = np.logical_or.reduce(list(masks(trace).values()))
        rows.append({"rule": name, "drops": int(dropped.sum()), "meaning": str(masks.__doc__)})
    return rows


def _cut_to_reference(trace: Trace) -> Trace:
    """Return the log with run times limited to the time limit, and processors limited to the machine."""
    run, request, procs = trace.run_time, trace.req_time, trace.number("alloc_procs")
    over, wider = run > request, procs > trace.info.max_procs
    info = trace.info
    if over.any():
        info = info.with_note(f"clean reference: the run time of {int(over.sum())} jobs was cut to the time limit")
    if wider.any():
        info = info.with_note(f"clean reference: processors of {int(wider.sum())} jobs were cut to the machine's size")
    columns = {"run_time": np.where(over, request, run), "alloc_procs": np.where(wider, trace.info.max_procs, procs)}
    return trace.with_columns(columns, info)


CENTURY = 100 * 365.25 * 86400.0  # in seconds; no job ran or waited this long, and no log covers such a time
_LIMITS = {
    "req_time": (3 * 365.25 * 86400.0, "more than 3 years"),  # longer limits in logs (INT_MAX, 23 years) are mistakes
    "s": (CENTURY, "more than 100 years"),
    "processors": (1e9, "more than 1e9 processors"),
    "KiB": (1024.0**4, "more than a pebibyte a node or processor"),  # per processor if the log has no node counts
}
"""The largest plausible value of a column, by the column's name or unit, and words for larger values."""


def without_absurd(trace: Trace, *, strict: bool = False) -> Trace:
    """Mark impossible values as unknown, and drop records with an impossible submit time.

    A single impossible value would set the scale of every mean, axis and simulated clock.

    >>> log = Trace.from_arrays({"job_id": [1, 2], "submit_time": [0, 9], "run_time": [60, 1e18]})
    >>> kept = without_absurd(log); kept.run_time.tolist(), kept.info.notes
    ([60.0, nan], ('1 values of run_time: more than 100 years, read as unknown (first: job 2: 1e+18)',))
    """
    # These values are impossible: durations above a century, time limits above three years, more than 1e9 processors,
    # memory above a pebibyte per node (per processor if the log has no node counts), and submit times more than a
    # century from the median submit time.
    info, changed = trace.info, {}
    for name in trace.names:
        column = COLUMNS.get(name)
        if column is None or column.unit not in _LIMITS or name in ("submit_time", "eligible_time"):
            continue
        limit, words = _LIMITS.get(name, _LIMITS[column.unit])
        values = trace.number(name)
        beyond = (share_of(trace, name) if column.unit == "KiB" else values) > limit
        if not beyond.any():
            continue
        first = int(np.argmax(beyond))
        what = f"values of {name}: {words}, read as unknown"
        where = f"job {trace.job_id[first]}: {values[first]:g}"
        if strict:
            raise input_error(info.source, f"{name}: {words}", value=where, hint="read the log without --strict")
        info = info.with_note(f"{int(beyond.sum())} {what} (first: {where})")
        changed[name] = np.where(beyond, np.nan, values)
    if changed:
        trace = trace.with_columns(changed, info)
    return _without_strays(trace, strict)


def _without_strays(trace: Trace, strict: bool) -> Trace:
    """Return the log without submit times more than a century from the median. In a sorted trace, only jobs at the
    ends can have an impossible submit time."""
    times = trace.submit_time
    if not len(times):
        return trace
    middle = times[len(times) // 2]
    first, last = np.searchsorted(times, [middle - CENTURY, np.nextafter(middle + CENTURY, np.inf)])
    if last - first == len(times):
        return trace
    rule = "submitted a century apart from the other jobs"
    if strict:
        job = trace.job_id[0 if first else -1]
        raise input_error(trace.info.source, f"{rule}: job {job}", hint="read the log without --strict")
    info = trace.info.with_dropped(rule, len(times) - int(last - first))
    return trace.take(np.arange(first, last), info)


_LOW, _MOST_USED = 0.1, 5


def summary(trace: Trace, procs: str = "req") -> dict[str, Any]:
    """Summarize a log: counts, spans, load and typical values."""
    # `load` is the processor-seconds used divided by machine size times span (first submission to last end).
    # `peak_procs` is the largest number of processors in use at once.
    submit, wait, run = outcome(trace)
    ran = ~np.isnan(run)
    width = trace.procs(procs)
    span = float((submit + wait + np.where(ran, run, 0.0)).max() - submit.min()) if len(trace) else float("nan")
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
    """Compare run times with requested time limits, over jobs that ran and had a limit above 0.

    >>> use = request_use(Trace.from_arrays({"run_time": [60.0, 3600.0], "req_time": [3600.0, 3600.0]}))
    >>> use["request_used_below_10"], use["usual_requests_s"], use["whole_hour_requests"]
    (0.5, [3600.0], 1.0)
    """
    # `request_used_median`: median of run time / limit. `request_used_total`: sum of run times / sum of limits.
    # `whole_hour_requests`: fraction of limits that are whole hours. `usual_requests`: fraction of jobs with one of the
    # five most frequent limits, which `usual_requests_s` lists.
    run, request = trace.run_time, trace.req_time
    both = ~np.isnan(run) & (request > 0)
    used = run[both] / request[both]
    values, counts = np.unique(request[request > 0], return_counts=True)
    top = np.argsort(-counts, kind="stable")[:_MOST_USED]
    total = float(counts.sum())
    return {
        "jobs_with_run_and_request": int(both.sum()),
        "request_used_median": _median(used),
        "request_used_total": float(run[both].sum() / request[both].sum()) if both.any() else float("nan"),
        "request_used_below_10": _mean(used < _LOW),
        "request_used_above_100": _mean(used > 1.0),
        "distinct_requests": len(values),
        "whole_hour_requests": float(counts[values % 3600 == 0].sum() / total) if total else float("nan"),
        "usual_requests": float(counts[top].sum() / total) if total else float("nan"),
        "usual_requests_s": values[top].tolist(),
    }


def memory(trace: Trace) -> dict[str, Any]:
    """Summarize the memory columns of a log, in KiB per `per`.

    >>> log = Trace.from_arrays({"req_procs": [1, 1], "req_mem_kib": [100.0, 100.0], "used_mem_kib": [25.0, 150.0]})
    >>> found = memory(log); found["per"], found["both"], found["used_total"], found["above"]
    ('processor', 2, 0.875, 0.5)
    """
    # `used_total`: the fraction of the requested memory that was used; `above`: the fraction of jobs above their
    # request; `copied`: the fraction of jobs whose use equals the request.
    use = memory_use(trace)
    asked, used = ~np.isnan(use.requested_kib), ~np.isnan(use.used_kib) & ~use.ended
    both = asked & used
    return {
        "per": use.per,
        "asked": int(asked.sum()),
        "measured": use.measured_jobs,
        "both": int(both.sum()),
        "zeros": use.zeros,
        "out_of_memory": int(use.ended.sum()),
        "copied": use.copied,
        "median_asked_kib": _median(use.requested_kib),
        "median_used_kib": _median(use.used_kib[used]),
        "largest_used_kib": float(use.used_kib[used].max()) if used.any() else float("nan"),
        "used_total": float(use.used_kib[both].sum() / use.requested_kib[both].sum()) if both.any() else float("nan"),
        "above": _mean(use.used_kib[both] > use.requested_kib[both]),
    }


def known_fields(trace: Trace) -> list[dict[str, Any]]:
    """Return the share of jobs with a known value and the number of distinct values, for every field of the log."""
    rows = []
    for name in (*(name for name in COLUMNS if name in trace.names), *trace.extra_names):
        values = trace.column(name)
        meaning = COLUMNS[name].meaning if name in COLUMNS else "an extra column"
        known = _mean(is_known(values))
        rows.append({"field": name, "known": known, "distinct": distinct(values), "meaning": meaning})
    return rows


def endings(trace: Trace) -> list[dict[str, Any]]:
    """Return how jobs ended, the most frequent status first."""
    status = trace.nominal("status")
    counts = np.bincount(status.codes + 1, minlength=len(status.categories) + 1)
    named = zip(["unknown", *status.categories], counts.tolist())
    rows = [{"status": str(name), "jobs": count, "share": count / len(trace)} for name, count in named if count]
    return sorted(rows, key=lambda row: -row["jobs"])


def irregularities(trace: Trace) -> list[dict[str, Any]]:
    """Return each kind of irregular data that the replay has a rule for, with its number of records."""
    return [{"irregularity": what, "jobs": count} for what, count in irregular(trace).items()]


def _median(values: np.ndarray) -> float:
    known = np.sort(values[~np.isnan(values)])  # np.median would load masked arrays, which slows down `info`
    n = len(known)
    return float((known[(n - 1) // 2] + known[n // 2]) / 2.0) if n else float("nan")


def distinct(values: Values) -> int:
    """Return the number of distinct known values of a column, without np.unique for the reason in `_median`."""
    ordered = np.sort(_plain(values)[is_known(values)])
    return int((ordered[1:] != ordered[:-1]).sum()) + 1 if len(ordered) else 0


def _mean(values: np.ndarray | Iterable[float]) -> float:
    array = np.asarray(values, dtype=float)
    known = array[~np.isnan(array)]
    return float(known.mean()) if len(known) else float("nan")


IDENTICAL = "identical to another record"
OUTDATED = "an earlier state of a job that has a later record"
SHARED_NUMBERS = 0.01
"""If a larger share of the records differs from another record with the same number and submit time, a job number does
not identify one job."""
MOST_ALIKE = 64
"""Largest number of records with the same number and submit time that are compared."""


def without_repeats(trace: Trace) -> Trace:
    """Keep one record of each job that is recorded several times. Dropped records are counted and noted.

    >>> columns = {"job_id": [7, 7, 8], "submit_time": [0.0, 0.0, 5.0], "run_time": [None, 60.0, 9.0],
    ...            "status": ["running", "completed", "completed"]}
    >>> once = without_repeats(Trace.from_arrays(columns))
    >>> once.job_id.tolist(), once.run_time.tolist(), dict(once.info.dropped)
    ([7, 8], [60.0, 9.0], {'an earlier state of a job that has a later record': 1})
    """
    # Records describe the same job if they have the same cluster, job number and submit time, and one of two conditions
    # is met:
    #
    # - All other values that both records have are equal. The first record stays, and receives the values that only the
    #   second record has. Or
    # - one of them was written before the job had finished (pending, running, ...), and their start times do not
    #   contradict each other. The finished record stays; of two unfinished records, the record with a start time stays;
    #   if no record or every record has one, the later record stays.
    #
    # Other records stay: the runs of a requeued job, or a reused number. If more than 1 % of the records (and more than
    # 20) differ from another record with the same job number and submit time, the number does not identify one job, as
    # in tables that give the number of an array to each of its tasks. If the job number does not identify one job, no
    # record is dropped. O(jobs).
    submit, ids = trace.submit_time, trace.job_id
    begins = np.ones(len(trace), bool)
    begins[1:] = (submit[1:] != submit[:-1]) | (ids[1:] != ids[:-1])
    if begins.all():
        return _with_count(trace)
    gone, outdated, pairs, unlike = _compare(trace, np.cumsum(begins))
    if unlike > max(SHARED_NUMBERS * len(trace), 20):
        return _with_count(trace)
    info, identical = trace.info, gone & ~outdated
    for rule, rows in ((IDENTICAL, identical), (OUTDATED, outdated)):
        info = info.with_dropped(rule, int(rows.sum())) if rows.any() else info
    return _with_count(trace.with_columns(_filled(trace, pairs, identical), info).take(~gone) if gone.any() else trace)


Pairs = list[tuple[np.ndarray, np.ndarray]]
"""Row numbers of kept records, and of the dropped records that are identical to them."""


def _compare(trace: Trace, group: np.ndarray) -> tuple[np.ndarray, np.ndarray, Pairs, int]:
    """Compare the records of each group, which are next to each other. Returns which records to drop, which of them
    are outdated, the pairs of identical records, and how many records differ."""
    from ..formats.times import UNFINISHED  # imported late, because few logs have repeated records

    unfinished, started = trace.nominal("status").is_any(UNFINISHED), ~np.isnan(trace.wait_time)
    gone, outdated = np.zeros(len(group), bool), np.zeros(len(group), bool)
    pairs: Pairs = []
    unlike = 0
    for lag in range(1, MOST_ALIKE):
        first = np.flatnonzero(group[:-lag] == group[lag:])
        if not len(first):
            break
        first = first[~gone[first] & ~gone[first + lag]]
        second = first + lag
        same_run = _agree(trace, first, second, {"cluster", "wait_time"})
        early, late = unfinished[first], unfinished[second]
        finished = ~early & ~late
        equal = finished & _agree(trace, first, second, set(trace.names))
        unlike += int((finished & ~equal).sum())
        second_goes = same_run & late & (~early | (started[first] & ~started[second]))
        first_goes = same_run & early & ~second_goes
        outdated[first[first_goes]] = outdated[second[second_goes]] = True
        gone |= outdated
        gone[second[equal]] = True
        pairs.append((first[equal], second[equal]))
    return gone, outdated, pairs, unlike


def _filled(trace: Trace, pairs: Pairs, gone: np.ndarray) -> dict[str, Values]:
    """Return the columns in which a kept record receives values that only the dropped identical record has."""
    changed: dict[str, Values] = {}
    for name in set(trace.names) - {"job_id", "submit_time"}:
        values = trace.column(name)
        plain = _plain(values).copy()
        for first, second in reversed(pairs) if plain.dtype.kind in "fi" else ():
            empty = _unknown(plain[first]) & ~_unknown(plain[second]) & gone[second]
            plain[first[empty]] = plain[second[empty]]
        changed[name] = Nominal(plain, values.categories) if isinstance(values, Nominal) else plain
    return changed


def _agree(trace: Trace, first: np.ndarray, second: np.ndarray, names: Set[str]) -> np.ndarray:
    """Whether the records of each pair have equal values in the given columns; unknown values are not compared."""
    agree = np.ones(len(first), bool)
    for name in names & set(trace.names) - {"job_id", "submit_time"}:
        plain = _plain(trace.column(name))
        a, b = plain[first], plain[second]
        agree &= (a == b) | (_unknown(a) | _unknown(b) if plain.dtype.kind in "fi" else False)
    return agree


def _plain(values: Values) -> np.ndarray:
    """Return the codes of a column of names, or the numbers of a column of numbers."""
    return values.codes if isinstance(values, Nominal) else values


def _unknown(values: np.ndarray) -> np.ndarray:
    """Whether each value is NaN, or the code for null."""
    return np.asarray(np.isnan(values) if values.dtype.kind == "f" else values < 0)


def _with_count(trace: Trace) -> Trace:
    """Return the log with a note about records that share a job number within a cluster."""
    count = int((~last_of_each_number(trace)).sum())
    note = (f"{count} records repeat the job number of an earlier record (a requeued job, or a reused number):"
            " all are kept; --clean duplicates keeps the last record of each number")  # fmt: skip
    return _with_new_note(trace, note) if count else trace


def _with_new_note(trace: Trace, note: str) -> Trace:
    """Return the log with one more note, unless the log has this note already."""
    text = worded(note)
    return trace if text in trace.info.notes else trace.with_info(trace.info.with_note(text))


def last_of_each_number(trace: Trace) -> np.ndarray:
    """Find the last record of each job number in its cluster.

    >>> log = {"job_id": [1, 1, 1], "submit_time": [0.0, 1.0, 2.0], "cluster": ["alpha", "beta", "alpha"]}
    >>> last_of_each_number(Trace.from_arrays(log)).tolist()
    [False, True, True]
    """
    ids = trace.job_id
    cluster = trace.nominal("cluster").codes
    several = cluster.size and bool((cluster != cluster[0]).any())
    if len(ids) < 2 or (not several and bool((ids[1:] > ids[:-1]).all())):
        return np.ones(len(ids), bool)
    _, number = np.unique(ids, return_inverse=True)
    key = number * (int(cluster.max()) + 2) + cluster + 1 if several else number
    _, last = np.unique(key[::-1], return_index=True)
    stays = np.zeros(len(ids), bool)
    stays[len(ids) - 1 - last] = True
    return stays


def note_clusters(trace: Trace) -> Trace:
    """Add a note with the names and job counts of the clusters, if the log has jobs of several."""
    cluster = trace.nominal("cluster")
    counts = np.bincount(cluster.codes[cluster.codes >= 0], minlength=len(cluster.categories))
    jobs = sorted((-int(count), str(name)) for name, count in zip(cluster.categories, counts) if count)
    if len(jobs) < 2:
        return trace
    each = ", ".join(f"{name} {-count:,}" for count, name in jobs[:10]) + (", ..." if len(jobs) > 10 else "")
    note = f"the log has jobs of {len(jobs)} clusters ({each}), read as one machine: --cluster NAME chooses one"
    return _with_new_note(trace, note)
