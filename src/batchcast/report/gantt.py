"""A Gantt excerpt: who held which processors where backfilling did most; one schedule at a time, few bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any, NamedTuple

import numpy as np

from ..evaluation.evaluation import Evaluation
from ..evaluation.periods import calendar
from ..events.recorded import outcome
from ..metrics.curves import POINTS, busy_share
from ..simulation.placement import place
from .axes import span
from .blocks import Colouring, Figure
from .owners import job_words, owners
from .policy_words import policy_words
from .strips import short, strips

MOST_BARS = 1000
MOST_SCHEDULES = 10
LENGTHS = tuple(3600.0 * hours for hours in (168, 72, 24, 12, 6, 3, 1))
RECORDED = "as recorded"
WAITED, PASSED, AT_ONCE = "waited", "passed a waiting job (backfilled)", "started at once"
HOW = Colouring(
    "how it started",
    "how",
    [
        {"name": AT_ONCE, "slot": 1, "pattern": "."},
        {"name": WAITED, "slot": 2, "pattern": ""},
        {"name": PASSED, "slot": 3, "pattern": "/"},
    ],
)
INSTANT = 1.0  # seconds: a batch system looks around about so often


class Jobs(NamedTuple):
    """What is drawn of one schedule: arrays (n,), seconds on the log's clock; `row` is the job's in the log."""

    row: np.ndarray
    submit: np.ndarray
    start: np.ndarray
    end: np.ndarray
    procs: np.ndarray
    backfilled: np.ndarray

    def within(self, low: float, high: float) -> Jobs:
        """The jobs that run at some time between two instants."""
        inside = (self.start < high) & (self.end > low) & (self.end > self.start) & (self.procs > 0)
        return Jobs(*(column[inside] for column in self))


def gantt(evaluation: Evaluation) -> Figure | None:
    """The excerpt, with every schedule to choose from (`MOST_SCHEDULES` at most); None where nothing was simulated.

    The window is the week in which the first schedule gives most processor time to jobs that passed a waiting one
    (where none does: in which most processors are waited for), or the log where it is shorter. Where more than
    `MOST_BARS` bars would be drawn, it is the part of that week (3 days, a day, ... an hour) of which the same holds
    and that has fewer. Of a schedule that has more even so, the pieces with the most processor time are drawn.
    """
    if not evaluation.outcomes:
        return None
    drawn = _schedules(evaluation)
    first = next(jobs for name, jobs in drawn.items() if name != RECORDED)
    if not (first.end > first.start).any():
        return None
    total = evaluation.outcomes[0].schedule.total
    low, high = window(first, total)
    local = calendar(evaluation.trace, low)
    zero = local.replace(tzinfo=UTC).timestamp()  # a page draws every instant as UTC
    here = {name: jobs.within(low, high) for name, jobs in drawn.items()}
    bars = {name: _bars(jobs, total, low, name) for name, jobs in here.items()}
    traces = [trace for trace, _ in bars.values()]
    left_out, shown = max(more for _, more in bars.values()), max(len(trace["x"]) for trace in traces)
    rows, colourings = _shared(evaluation, here, traces, low, high)
    highest = [y + width / 2 for trace in traces for y, width in zip(trace["y"], trace["width"])]
    top = max(total, int(max(highest, default=0)))
    xaxis = {
        "type": "date", "title": {"text": f"time ({evaluation.trace.info.timezone})"}, "origin": zero * 1000,
        "range": [zero * 1000, (zero + high - low) * 1000],
    }  # fmt: skip
    layout = {
        "barmode": "overlay",
        "bargap": 0,
        "xaxis": xaxis,
        "yaxis": {"title": {"text": "processor"}, "range": [0, top], **({"dtick": 1} if total <= 12 else {})},
        "hovermode": "closest",
    }
    times = {name: (jobs.submit, jobs.start, jobs.end, jobs.procs) for name, jobs in drawn.items()}
    return Figure(
        f"A Gantt excerpt: {_length(high - low)} from {local:%Y-%m-%d %H:%M}",
        traces,
        layout,
        f"Which jobs hold which of {total:,} processors for {_length(high - low)} from {local:%Y-%m-%d %H:%M}, under "
        f"{', '.join(drawn)}; {shown:,} bars at most.",
        _caption(high - low, bool(_passing(first).any()), left_out, len(evaluation.outcomes) - MOST_SCHEDULES)
        + _above(top, total),
        480,
        pick=tuple(drawn),
        rows=rows,
        colourings=colourings,
        below=strips(times, total, low, high, {key: xaxis[key] for key in ("type", "origin", "range")}),
    )


def window(jobs: Jobs, total: int) -> tuple[float, float]:
    """The part worth drawing, as two instants, see `gantt`; no more bars than `MOST_BARS`."""
    low, high = float(jobs.submit.min()), float(jobs.end.max())
    for length in LENGTHS:
        if high - low > length:
            edges = np.append(np.arange(low, high, length), high)
            edges = edges[:-1] if len(edges) > 2 and edges[-1] - edges[-2] < length else edges
            passed = busy_share(jobs.start, jobs.end, jobs.procs * _passing(jobs), edges, 1.0)
            waiting = busy_share(jobs.submit, jobs.start, jobs.procs, edges, 1.0)
            running = busy_share(jobs.start, jobs.end, jobs.procs, edges, 1.0)
            low = float(edges[int(np.lexsort((running, waiting, passed))[-1])])
            high = low + length
        inside = jobs.within(low, high)
        if len(pieces(inside, total)[0]) <= MOST_BARS:
            break
    return low, high


def _passing(jobs: Jobs) -> np.ndarray:
    """Which jobs waited and then passed another one."""
    return np.asarray(jobs.backfilled & (jobs.start - jobs.submit >= INSTANT))


def pieces(jobs: Jobs, total: int) -> np.ndarray:
    """Blocks of neighbouring processors, (3, m) whole numbers: the place of the job, the first processor, how many.

    A recorded log may hold more at once than the machine has; they are drawn above it.
    """
    time = np.concatenate([jobs.end, jobs.start])
    order = np.lexsort((np.repeat([0, 1], len(jobs.start)), time))
    most = np.cumsum(np.concatenate([-jobs.procs, jobs.procs])[order]).max(initial=0)
    held = place(jobs.start, jobs.end, jobs.procs, max(total, int(most)))
    rows = [(k, low, high - low + 1) for k, blocks in enumerate(held) for low, high in blocks]
    return np.array(rows, dtype=np.int64).reshape(-1, 3).T


def _schedules(evaluation: Evaluation) -> dict[str, Jobs]:
    """Every schedule by the name people read; as recorded comes last."""
    schedules = {}
    for each in evaluation.outcomes[:MOST_SCHEDULES]:
        schedule = each.schedule
        name = f"{policy_words(each.policy)} planned with {each.predictor}"
        schedules[name] = Jobs(
            schedule.rows,
            schedule.submit_time,
            schedule.start_time,
            schedule.end_time,
            schedule.procs,
            schedule.backfilled,
        )
    submit, wait, run = outcome(evaluation.trace)
    procs = np.nan_to_num(evaluation.trace.procs(evaluation.procs)).astype(np.int64)
    begun, known = submit + wait, ~np.isnan(run) & (evaluation.trace.wait_time >= 0)
    columns = (np.arange(len(submit)), submit, begun, begun + np.nan_to_num(run), procs, np.zeros(len(submit), bool))
    if known.any():
        schedules[RECORDED] = Jobs(*(column[known] for column in columns))
    return schedules


def _bars(jobs: Jobs, total: int, low: float, variant: str) -> tuple[dict[str, Any], int]:
    """The trace of a schedule, a bar a piece, and how many pieces were left out."""
    held = pieces(jobs, total)
    wait, length = jobs.start - jobs.submit, jobs.end - jobs.start
    kept = np.sort(np.argsort(-held[2] * length[held[0]], kind="stable")[:MOST_BARS])
    job, first, count = held[:, kept]
    how = np.where(wait < INSTANT, 0, np.where(jobs.backfilled, 2, 1))
    return {
        "type": "bar", "orientation": "h", "name": variant, "meta": {"slot": 1, "variant": variant},
        "row": jobs.row[job], "how": how[job].tolist(), "procs": jobs.procs[job],
        "base": short((jobs.start - low)[job]), "x": short(length[job]),
        "y": short(first + count / 2), "width": count.tolist(),
        "hovertemplate": "%{job}: %{procs} processors, waited %{submit:since}, ran %{x:ms}",
        "marker": {"line": {"width": 0.6}},
    }, held.shape[1] - len(kept)  # fmt: skip


def _shared(
    evaluation: Evaluation, schedules: Mapping[str, Jobs], traces: Sequence[dict[str, Any]], low: float, high: float
) -> tuple[dict[str, Any], tuple[Colouring, ...]]:
    """What the bars of all schedules say of their jobs, and how they can be coloured; traces then point to it.

    A user's colour is the same under every schedule: ranked by the processor time within the window over all of them.
    """
    trace = evaluation.trace
    time = np.zeros(len(trace))
    for jobs in schedules.values():
        inside = np.minimum(jobs.end, high) - np.maximum(jobs.start, low)
        np.add.at(time, jobs.row, inside * jobs.procs)
    used = np.unique(np.concatenate([bars["row"] for bars in traces]))
    procs = np.nan_to_num(trace.procs(evaluation.procs)[used]).astype(np.int64)
    for bars in traces:
        row, own = np.searchsorted(used, bars["row"]), bars.pop("procs")
        bars["row"] = row.tolist()
        if (own != procs[row]).any():  # a job was cut to the machine
            bars["procs"] = own.tolist()
    users = trace.nominal("user_id").take(used)
    colouring, whose = owners(users, time[used])
    submit = short(trace.submit_time[used] - low)
    rows: dict[str, Any] = {
        "job": job_words(trace.job_id[used].tolist(), users),
        "procs": procs.tolist(),
        "submit": submit,
    }
    return (rows, (HOW,)) if colouring is None else (rows | {"whose": whose}, (HOW, colouring))


def _length(seconds: float) -> str:
    return {604800.0: "a week", 86400.0: "a day", 3600.0: "an hour"}.get(seconds, span(seconds))


def _above(top: int, total: int) -> str:
    more = f" The record has up to {top:,} processors in use at once, more than the {total:,} of the machine."
    return more if top > total else ""


def _caption(length: float, passing: bool, left_out: int, more: int) -> str:
    where = (
        "gives most processor time to jobs that passed a waiting one"
        if passing
        else "lets most processors be waited for"
    )
    text = "A bar is a job on processors it could have had, since the model only counts them. "
    if length in LENGTHS:
        part = "the week" if length == LENGTHS[0] else f"the part of a week, as long as {MOST_BARS:,} bars allow,"
        text += f"Shown is {part} in which the first schedule {where}."
    if left_out:
        text += f" Up to {left_out:,} of the smallest bars of a schedule are not drawn."
    text += f" Where the queue changes more than {POINTS} times, its strip shows means of 1/{POINTS} of the time."
    if more > 0:
        text += f" {more} more schedules are not offered here; --policy and --predictor choose."
    return text
