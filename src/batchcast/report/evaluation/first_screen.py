# SPDX-License-Identifier: Apache-2.0
"""The first screen.

The verdict, the gain with its interval, waits, the nearest forecast and the limits on cards; and the log in one row
of numbers per question.
"""

from __future__ import annotations

import numpy as np

from ...evaluation.calendar import calendar
from ...evaluation.evaluation import Evaluation
from ...evaluation.simulated import YARDSTICK
from ...events.recorded import outcome
from ...metrics.accuracy import relative_accuracy
from ..blocks import Card, Cards, Table, TableColumn, shown
from ..figures import span
from .gains import gain_cards

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


def cards(evaluation: Evaluation) -> Cards:
    """The key figures of an evaluation; those that the log does not give are left out."""
    first, last = gain_cards(evaluation)
    return Cards([*first, *_limits(evaluation), *_unused(evaluation), *_forecast(evaluation), *last])


def _unused(evaluation: Evaluation) -> list[Card]:
    whole = evaluation.waste_rows()[0]
    asked, unused = whole["asked_core_h"], whole["unused_core_h"]
    if not asked > 0:
        return []
    return [
        Card("Core-hours unused", shown(unused / asked, "share"), f"of {shown(asked, 'count')} that limits asked for")
    ]


def _forecast(evaluation: Evaluation) -> list[Card]:
    rows = {row["predictor"]: row for row in evaluation.accuracy_rows() if row["jobs"]}
    others = [row for name, row in rows.items() if name != YARDSTICK and row["mae_s"] == row["mae_s"]]
    if not others:
        return []
    least = min(others, key=lambda row: row["mae_s"])
    limits = f"; the limits' {span(rows[YARDSTICK]['mae_s'])}" if YARDSTICK in rows else ""
    return [Card("Smallest mean error", span(least["mae_s"]), f"{least['predictor']}{limits}")]


def _limits(evaluation: Evaluation) -> list[Card]:
    run, limit = (v[evaluation.scores.scored] for v in (evaluation.trace.run_time, evaluation.trace.req_time))
    known = np.isfinite(limit) & np.isfinite(run) & (limit > 0)
    if not known.any():
        return []
    used = 100.0 * float(np.median(run[known] / limit[known]))
    share = f"{used:.0f} %" if used >= 1 else "below 1 %"
    return [Card("Used of the limit", share, "median over the scored jobs")]
