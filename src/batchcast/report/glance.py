"""The log at a glance: one row of numbers per question."""

from __future__ import annotations

import numpy as np

from ..evaluation.evaluation import Evaluation
from ..evaluation.periods import calendar
from ..events.recorded import outcome
from ..metrics.accuracy import relative_accuracy
from .axes import span
from .blocks import Table, TableColumn, shown

LEAST_PERIODS = 3  # fewer points over time are no picture


def glance_table(evaluation: Evaluation) -> Table:
    """What the log holds: counts, dates, machine, load, waits, sizes and the users' accuracy."""
    trace = evaluation.trace
    submit, wait, run = outcome(trace)
    ran = ~np.isnan(run)
    first, last = calendar(trace, float(submit[0])), calendar(trace, float(submit[-1]))
    users = len(np.unique(trace.nominal("user_id").codes[trace.nominal("user_id").is_known()]))
    procs = trace.procs(evaluation.procs)
    rows = [
        ("jobs", f"{len(trace):,}, of which {int((~ran).sum()):,} never ran"),
        ("scored", f"{int(evaluation.scores.scored.sum()):,} jobs"),
        ("users", f"{users:,}" if users else "unknown"),
        ("submitted", f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} ({trace.info.timezone})"),
        ("machine", _machine(evaluation)),
        ("utilization, as recorded", _utilization(submit + wait, run, procs, trace.info.max_procs)),
        ("wait, as recorded", _quantiles(np.maximum(trace.wait_time[ran], 0))),
        ("run time", _quantiles(run)),
        ("limit", _quantiles(trace.req_time)),
        ("processors", _sizes(procs)),
        ("users' accuracy", _users_accuracy(run, trace.req_time)),
    ]
    return Table(
        "What the log holds",
        [TableColumn("what", ""), TableColumn("value", "")],
        [{"what": w, "value": v} for w, v in rows],
    )


def _machine(evaluation: Evaluation) -> str:
    info = evaluation.trace.info
    if not info.max_procs > 0:
        return "size unknown"
    return f"{info.max_procs:,.0f} processors (from {info.max_procs_source})"


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
    return (
        f"median {np.median(procs):g}, largest {procs.max():,.0f}; {shown(float((procs == 1).mean()), 'share')} serial"
    )


def _users_accuracy(run: np.ndarray, limit: np.ndarray) -> str:
    known = np.isfinite(run) & np.isfinite(limit)
    if not known.any():
        return "unknown"
    return f"{relative_accuracy(limit[known], run[known]).mean():.3f} (mean of min/max of limit and run; 1 is perfect)"
