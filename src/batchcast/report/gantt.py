"""A Gantt excerpt: who held which processors while the queue was longest; one schedule at a time, few bars."""

from __future__ import annotations

from datetime import UTC
from typing import Any, NamedTuple

import numpy as np

from ..evaluate.evaluation import Evaluation
from ..evaluate.periods import calendar
from ..events.recorded import outcome
from ..metrics.curves import mean_count
from ..metrics.placement import placement
from .axes import span
from .blocks import Figure
from .words import policy_words

MOST_BARS = 600
MOST_SCHEDULES = 10
LENGTHS = tuple(3600.0 * hours for hours in (168, 72, 24, 12, 6, 3, 1))
RECORDED = "as recorded"
WAITED, PASSED, AT_ONCE = "waited", "passed a waiting job (backfilled)", "started at once"
COLOURS = {AT_ONCE: 1, WAITED: 2, PASSED: 3}
INSTANT = 1.0  # seconds: a batch system looks around about so often


class Jobs(NamedTuple):
    """What is drawn of one schedule: arrays (n,), seconds on the log's clock; `backfilled` where it is known."""

    job_id: np.ndarray
    submit: np.ndarray
    start: np.ndarray
    end: np.ndarray
    procs: np.ndarray
    backfilled: np.ndarray

    def within(self, low: float, high: float) -> Jobs:
        """The jobs that run at some time between two instants."""
        inside = (self.start < high) & (self.end > low) & (self.end > self.start) & (self.procs > 0)
        return Jobs(*(column[inside] for column in self))


def gantt(found: Evaluation) -> Figure | None:
    """The excerpt, with every schedule to choose from (`MOST_SCHEDULES` at most); None where nothing was simulated.

    The window is the week in which the queue of the first schedule is longest on average, or the log where it is
    shorter; where more than `MOST_BARS` bars would be drawn, the busiest part of that week (3 days, a day, ... an hour)
    that has fewer. Of a schedule that has more even so, the pieces with the most processor time are drawn.
    """
    if not found.outcomes:
        return None
    drawn = _schedules(found)
    first = next(jobs for name, jobs in drawn.items() if name != RECORDED)
    if not (first.end > first.start).any():
        return None
    total = found.outcomes[0].schedule.total
    low, high = window(first, total)
    traces: list[dict[str, Any]] = []
    left_out, shown = 0, 0
    local = calendar(found.trace, low)
    zero = local.replace(tzinfo=UTC).timestamp()  # plotly draws every instant as UTC
    for name, jobs in drawn.items():
        made, more = _bars(jobs.within(low, high), total, low, zero, name)
        traces += made
        left_out, shown = max(left_out, more), max(shown, sum(len(trace["x"]) for trace in made))
    layout = {
        "barmode": "overlay",
        "bargap": 0,
        "xaxis": {
            "type": "date", "title": {"text": f"time ({found.trace.info.timezone})"},
            "range": [zero * 1000, (zero + high - low) * 1000],
        },
        "yaxis": {"title": {"text": "processor"}, "range": [0, total], **({"dtick": 1} if total <= 12 else {})},
        "hovermode": "closest",
    }  # fmt: skip
    return Figure(
        f"A Gantt excerpt: {_length(high - low)} from {local:%Y-%m-%d %H:%M}",
        traces,
        layout,
        f"Which jobs hold which of {total:,} processors for {_length(high - low)} from {local:%Y-%m-%d %H:%M}, under "
        f"{', '.join(drawn)}; {shown:,} bars at most.",
        _caption(high - low, left_out, len(found.outcomes) - MOST_SCHEDULES),
        480,
        pick=tuple(drawn),
    )


def window(jobs: Jobs, total: int) -> tuple[float, float]:
    """The part worth drawing, as two instants: where the queue is longest, and no more bars than `MOST_BARS`."""
    low, high = float(jobs.submit.min()), float(jobs.end.max())
    for length in LENGTHS:
        if high - low > length:
            edges = np.append(np.arange(low, high, length), high)
            edges = edges[:-1] if len(edges) > 2 and edges[-1] - edges[-2] < length else edges
            waiting = mean_count(jobs.submit, jobs.start, edges)
            running = mean_count(jobs.start, jobs.end, edges)
            low = float(edges[int(np.lexsort((running, waiting))[-1])])
            high = low + length
        inside = jobs.within(low, high)
        if len(placement(inside.start, inside.end, inside.procs, total).job) <= MOST_BARS:
            break
    return low, high


def _schedules(found: Evaluation) -> dict[str, Jobs]:
    """Every schedule by the name people read; as recorded comes last."""
    made = {}
    for each in found.outcomes[:MOST_SCHEDULES]:
        it = each.schedule
        name = f"{policy_words(each.policy)} planned with {each.predictor}"
        made[name] = Jobs(it.job_id, it.submit_time, it.start_time, it.end_time, it.procs, it.backfilled)
    submit, wait, run = outcome(found.trace)
    procs = np.nan_to_num(found.trace.procs(found.procs)).astype(np.int64)
    begun, known = submit + wait, ~np.isnan(run) & (found.trace.wait_time >= 0)
    columns = (found.trace.job_id, submit, begun, begun + np.nan_to_num(run), procs, np.zeros(len(submit), bool))
    if known.any():
        made[RECORDED] = Jobs(*(column[known] for column in columns))
    return made


def _bars(jobs: Jobs, total: int, low: float, zero: float, variant: str) -> tuple[list[dict[str, Any]], int]:
    """One trace per way of starting, and how many pieces were left out."""
    pieces = placement(jobs.start, jobs.end, jobs.procs, total)
    wait, length = jobs.start - jobs.submit, jobs.end - jobs.start
    kept = np.sort(np.argsort(-pieces.procs * length[pieces.job], kind="stable")[:MOST_BARS])
    job, first, count = (column[kept] for column in pieces)
    how = np.where(wait < INSTANT, AT_ONCE, np.where(jobs.backfilled, PASSED, WAITED))[job]
    traces = []
    for label, slot in COLOURS.items():
        here = how == label
        of = job[here]
        traces.append(
            {
                "type": "bar", "orientation": "h", "name": label, "meta": {"slot": slot, "variant": variant},
                "base": [round(1000 * v) for v in (zero + jobs.start[of] - low).tolist()],
                "x": [round(1000 * v) for v in length[of].tolist()],
                "y": (first[here] + count[here] / 2).tolist(),
                "width": count[here].tolist(),
                "customdata": [
                    f"job {i}: {p:,} processors, waited {span(w)}, ran {span(r)}"
                    for i, p, w, r in zip(*(v[of].tolist() for v in (jobs.job_id, jobs.procs, wait, length)))
                ],
                "hovertemplate": "%{customdata}",
                "marker": {"line": {"width": 0.6}, "pattern": {"shape": "/" if slot == 3 else "", "solidity": 0.15}},
            }
        )  # fmt: skip
    return traces, len(pieces.job) - len(kept)


def _length(seconds: float) -> str:
    return {604800.0: "a week", 86400.0: "a day", 3600.0: "an hour"}.get(seconds, span(seconds))


def _caption(length: float, left_out: int, more: int) -> str:
    text = "A bar is a job on processors it could have had, since the model only counts them. The excerpt is where the "
    text += "queue of the first schedule is longest"
    text += "." if length == LENGTHS[0] else f", as much of it as {MOST_BARS} bars show."
    if left_out:
        text += f" Up to {left_out:,} of the smallest bars of a schedule are not drawn."
    if more > 0:
        text += f" {more} more schedules are not offered here; --policy and --predictor choose."
    return text
