# SPDX-License-Identifier: Apache-2.0
"""Describe a log before anything is predicted or simulated: counts, limits, waits, and columns that would help."""

from __future__ import annotations

import numpy as np

from ...evaluation.calendar import calendar
from ...evaluation.evaluation import Evaluation
from ...evaluation.waste import waste_rows
from ...events.recorded import outcome
from ...metrics.accuracy import relative_accuracy
from ...table import Trace
from ...units import counted
from ..blocks import Block, Table, TableColumn, shown
from ..figures import span


def record_blocks(trace: Trace, mask: np.ndarray, procs: str) -> list[Block]:
    """Return the page's blocks that describe only the recorded data, before anything is predicted or simulated.

    `mask` (n,) are the jobs to score, and `procs` the rule for a job's processors. O(n log n).
    """
    scored = mask & ~np.isnan(trace.run_time)
    return [glance_table(trace, scored, procs), limits_used(trace, scored, procs)]


def limits_used(trace: Trace, scored: np.ndarray, procs: str) -> str:
    """Return a figure of the share of their time limits that the scored jobs use."""
    run, limit = trace.run_time[scored], trace.req_time[scored]
    known = ~np.isnan(limit) & np.isfinite(limit)
    if not known.any():
        return "The log has no time limits."
    run, limit = run[known], limit[known]
    used = np.divide(run, limit, out=np.ones(len(run)), where=limit > 0)
    over = float((run > limit).mean())
    half = max(100 * float(np.median(used)), 1.0)
    bound = "less than" if np.median(used) < 0.5 else "at least"
    past = f", and {100 * over:.1f} % ran longer than it" if over >= 0.0005 else ""
    whole = waste_rows(trace, scored, procs=procs)[0]
    asked, unused = whole["asked_core_h"], whole["unused_core_h"]
    share = f"; {shown(unused / asked, 'share')} of the requested core-hours went unused" if asked > 0 else ""
    limits, runs = (span(float(np.median(values))) for values in (limit, trace.run_time[scored]))
    return (
        f"Half of the jobs use {bound} {half:.0f} % of their time limit{past}{share}. "
        f"The median time limit is {limits}; the median run time is {runs}."
    )


def advised_columns(evaluation: Evaluation) -> str:
    """Return the columns of the log that would improve the prediction, and by how much; empty if no column would.

    The columns are chosen on earlier jobs of the log and tested on later jobs.
    """
    advice = evaluation.advice
    if advice is None:
        return ""
    trace = evaluation.trace
    since = calendar(trace, float(trace.submit_time[advice.since]))
    ends = (advice.difference.high, advice.difference.low)
    low, high = (shown(-end / advice.against_mae_s, "share") for end in ends)
    how = f"uses {' and '.join(advice.columns)}" if advice.columns else "compares similar requests"
    return (
        f"A better prediction {how}, which the log contains: {advice.predictor} (columns chosen on "
        f"{advice.past_jobs:,} jobs before {since:%Y-%m-%d}) has a mean error of {span(advice.mae_s)} on the "
        f"{advice.jobs:,} jobs since then, and {advice.against} has {span(advice.against_mae_s)} ({low} to {high} "
        f"smaller, 90 % interval over users' weeks). Try --predictor {advice.predictor}."
    )


LEAST_PERIODS = 3  # fewer points over time make no useful picture


def glance_table(trace: Trace, scored: np.ndarray, rule: str) -> Table:
    """Return the contents of the log: counts, dates, machine, load, waits, sizes and the accuracy of users' time
    limits."""
    submit, wait, run = outcome(trace)
    ran = ~np.isnan(run)
    first, last = calendar(trace, float(submit[0])), calendar(trace, float(submit[-1]))
    users = len(np.unique(trace.nominal("user_id").codes[trace.nominal("user_id").is_known()]))
    procs = trace.procs(rule)
    machine = f"{trace.info.max_procs:,.0f} processors (from {trace.info.max_procs_source})"
    rows = [
        ("jobs", f"{len(trace):,}, of which {int((~ran).sum()):,} never ran"),
        ("scored", counted(int(scored.sum()))),
        ("users", f"{users:,}" if users else "unknown"),
        ("submitted", f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} ({trace.info.timezone})"),
        ("machine", machine if trace.info.max_procs > 0 else "size unknown"),
        ("recorded utilization", _utilization(submit + wait, run, procs, trace.info.max_procs)),
        ("recorded wait", _quantiles(np.maximum(trace.wait_time[ran], 0))),
        ("run time", _quantiles(run)),
        ("time limit", _quantiles(trace.req_time)),
        ("processors", _sizes(procs)),
        ("accuracy of the time limits", _users_accuracy(run, trace.req_time)),
    ]
    columns = [TableColumn("what", ""), TableColumn("value", "")]
    return Table("Contents of the log", columns, [{"what": what, "value": value} for what, value in rows])


def _utilization(start: np.ndarray, run: np.ndarray, procs: np.ndarray, total: float) -> str:
    known = ~(np.isnan(run) | np.isnan(procs))
    if not total > 0 or not known.any():
        return "unknown"
    makespan = float((start + run)[known].max() - start[known].min())
    return shown(float((procs * run)[known].sum()) / (total * makespan), "share") if makespan > 0 else "unknown"


def _quantiles(values: np.ndarray) -> str:
    values = values[np.isfinite(values)]
    if not len(values):
        return "unknown"
    half, most = np.percentile(values, [50, 95]).tolist()
    return f"mean {span(float(values.mean()))}, median {span(half)}, 95 % within {span(most)}"


def _sizes(procs: np.ndarray) -> str:
    procs = procs[~np.isnan(procs)]
    if not len(procs):
        return "unknown"
    serial = shown(float((procs == 1).mean()), "share")
    return f"median {np.median(procs):g}, largest {procs.max():,.0f}; {serial} serial"


def _users_accuracy(run: np.ndarray, limit: np.ndarray) -> str:
    known = np.isfinite(run) & np.isfinite(limit)
    if not known.any():
        return "unknown"
    accuracy = relative_accuracy(limit[known], run[known]).mean()
    return f"{accuracy:.3f} (mean of run time / time limit, inverted above 1; 1 is perfect)"
