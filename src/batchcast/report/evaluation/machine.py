# SPDX-License-Identifier: Apache-2.0
"""Figures of the machine's use over time under every schedule, of recorded against simulated waits of each job, and a
Gantt excerpt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from typing import Any, NamedTuple

import numpy as np

from ...evaluation.calendar import calendar, periods
from ...evaluation.evaluation import Evaluation
from ...evaluation.validity import MINUTE, MOST_DISTANCE, ComparedWaits
from ...events.recorded import outcome
from ...metrics.accuracy import SIZE_CLASSES, size_class
from ...metrics.curves import POINTS, busy_share, mean_count, steps
from ...predict.protocol import spec_words
from ...simulation.models import YARDSTICK
from ...simulation.schedule import assign_processors
from ...table import Nominal
from ...units import counted
from .. import figures
from ..blocks import Block, Colouring, Figure, as_text
from ..difference import Gap, cdf_minus, or_minus
from ..figures import between, span, tick
from ..validity import RULES
from .gains import FIXED, mark_choices, policy_words
from .heat_maps import NARROW, Axis, Shades, heat

RECORDED, SIMULATED = "recorded", "simulated"
LEAST_PERIODS = 3  # fewer points over time make no useful picture


def machine_blocks(evaluation: Evaluation, slots: Mapping[str, int]) -> list[Block]:
    """Return queue length and utilization over time per policy, one line per predictor, and a Gantt excerpt."""
    if not evaluation.outcomes:
        return [evaluation.why_not]
    excerpt = gantt(evaluation)
    drawn: list[Block] = [excerpt] if excerpt is not None else []
    edges, starts, unit = periods(evaluation.trace)
    if len(starts) < LEAST_PERIODS:
        return drawn or [SHORT]
    last = max(float(each.schedule.submit_time[-1]) for each in evaluation.outcomes if len(each.schedule))
    edges = np.clip(edges, float(evaluation.trace.submit_time[0]), max(last, float(evaluation.trace.submit_time[-1])))
    total = evaluation.outcomes[0].schedule.total
    submit, wait, run = outcome(evaluation.trace)
    procs = evaluation.trace.procs(evaluation.procs)
    waited = np.where(evaluation.trace.wait_time >= 0, submit + wait, np.nan)  # the value is NaN if the wait is unknown
    busy = {RECORDED: busy_share(submit + wait, submit + wait + run, procs, edges, total)}
    queue = {RECORDED: mean_count(submit, waited, edges)} if not np.isnan(waited).all() else {}
    blocks: list[Block] = []
    for policy in dict.fromkeys(each.policy for each in evaluation.outcomes):
        mine = {spec_words(each.predictor): each.schedule for each in evaluation.outcomes if each.policy == policy}
        queues = {name: mean_count(each.submit_time, each.start_time, edges) for name, each in mine.items()}
        shares = {name: busy_share(s.start_time, s.end_time, s.procs, edges, total) for name, s in mine.items()}
        blocks += [_over_time(policy, queue | queues, starts, unit, slots, share=False),
                   _over_time(policy, busy | shares, starts, unit, slots, share=True)]  # fmt: skip
    return [*blocks, *drawn]


SHORT = "The log is too short to show anything over time."
CAPTION = (
    "All jobs, including jobs that are not scored. If the recorded line and the line of the users' limits differ, "
    "the real scheduler did something that the model does not have: other rules, failed nodes, reservations."
)


def _over_time(
    policy: str, series: Mapping[str, np.ndarray], starts: list[str], unit: str, slots: Mapping[str, int], share: bool
) -> Figure:
    """Return a figure of the queue length under a policy; if `share` is true, of the utilization."""
    title = f"{'Utilization' if share else 'Queue'} under {policy_words(policy)}"
    words = "share of the processors busy" if share else f"jobs waiting, mean of the {unit}"
    drawn = {name: (starts, values) for name, values in series.items()}
    figure = figures.lines(title, drawn, x=unit, y=words, kind="share" if share else "number", slots=slots,
                           caption="" if share else CAPTION)  # fmt: skip
    means = "; ".join(f"{name}: mean {_mean(values, share)}" for name, values in series.items())
    figure = replace(figure, alt=f"{title}: {words}. {means}.")
    limits = spec_words(YARDSTICK)
    gaps = {n: Gap(starts, v - series[limits]) for n, v in series.items() if n not in (limits, RECORDED)}
    figure = mark_choices(figure, list(series), policy=policy)
    return or_minus(figure, gaps, limits, "without the record.", share=share)


def _mean(values: np.ndarray, share: bool) -> str:
    known = values[np.isfinite(values)]
    return "unknown" if not len(known) else f"{100 * known.mean():.1f} %" if share else f"{known.mean():.1f}"


EDGES_S = (60, 120, 240, 480, 900, 1800, 3600, 7200, 14400, 28800, 57600, 129600, 259200, 518400, 1036800)
"""Ends of the classes of waits, each about twice the one before; the last class has none."""
NAMES = (f"< {tick(EDGES_S[0])}", *map(between, EDGES_S, EDGES_S[1:]), f"> {tick(EDGES_S[-1])}")
SHADES = 5
MUCH = 0.5


def recorded_wait_blocks(evaluation: Evaluation) -> list[Block]:
    """Return sentences and two pictures; empty if no wait is recorded or nothing was simulated."""
    validity = evaluation.validity
    if validity is None or validity.waits is None or not validity.jobs:
        return []
    waits = validity.waits
    how = f"simulated {RULES[validity.policy]} with the users' limits"
    alike, longer, shorter = (as_text(share, "share") for share in waits.shares())
    words = (
        f"The same {counted(len(waits.rows))} as recorded and as {how}. {alike} "
        "of them wait alike in both (less than a factor of two apart, or under a minute); "
        f"{longer} waited at least twice as long in the record, {shorter} at least twice as long in the simulation."
    )
    words += _by_size(evaluation, waits)
    return [words, _distributions(waits, validity.wait_distance, how), density(waits, how)]


def _by_size(evaluation: Evaluation, waits: ComparedWaits) -> str:
    """Return the size class that makes most of the difference, if this far exceeds its share of the jobs."""
    size = size_class(evaluation.trace.procs(evaluation.procs)[waits.rows])
    apart = np.abs(waits.recorded - waits.simulated)
    known = size >= 0
    if not apart[known].sum() > 0:
        return ""
    jobs = np.bincount(size[known], minlength=len(SIZE_CLASSES)) / known.sum()
    share = np.bincount(size[known], weights=apart[known], minlength=len(SIZE_CLASSES)) / apart[known].sum()
    most = int(share.argmax())
    if share[most] < MUCH or share[most] < 2 * jobs[most]:
        return ""
    return (
        f" Jobs of {SIZE_CLASSES[most]} processors are {as_text(float(jobs[most]), 'share')} of the jobs and "
        f"{as_text(float(share[most]), 'share')} of the difference in waits."
    )


def _distributions(waits: ComparedWaits, distance: float, how: str) -> Figure:
    series = {RECORDED: np.maximum(waits.recorded, MINUTE), SIMULATED: np.maximum(waits.simulated, MINUTE)}
    figure = figures.cdf(
        "Recorded and simulated waits", series, x="wait",
        slots={RECORDED: FIXED[RECORDED], SIMULATED: 0},
        caption=f"The same jobs, {how}. Waits below one minute are drawn at one minute. The largest distance "
        f"between the curves is {distance:.2f}; above {MOST_DISTANCE}, the simulation is not called close.",
    )  # fmt: skip
    return cdf_minus(figure, series, RECORDED, "above zero, more jobs wait up to this time in the simulation.")


def density(waits: ComparedWaits, how: str) -> Figure:
    """Return a heat map of the number of jobs by recorded and simulated wait."""
    across, down = (np.searchsorted(EDGES_S, one, side="right") for one in (waits.recorded, waits.simulated))
    top = int(max(across.max(), down.max())) + 1
    count = np.bincount(down * top + across, minlength=top * top).reshape(top, top)[::-1]
    names = NAMES[:top]
    outside = count.copy()
    outside[-1, 0] = 0  # jobs that wait less than a minute in both schedules: often most jobs, and of no interest
    ends = _ends(int(outside.max()))
    shade = np.where(count > 0, np.searchsorted(ends, count, side="left"), -1)
    same = as_text(float(np.trace(count[::-1]) / len(waits.rows)), "share")
    return heat(
        "Wait of each job, recorded and simulated",
        Axis("wait as simulated", names[::-1]),
        Axis("wait as recorded", names),
        Shades(shade, _legend(ends)),
        lambda r, c: counted(count[r, c]),
        lambda r, c: f"{count[r, c]:,}",
        alt=f"Jobs by recorded and simulated wait: {same} in the same class in both, "
        f"{as_text(float((across > down).mean()), 'share')} in a longer one as recorded, "
        f"{as_text(float((across < down).mean()), 'share')} in a longer one as simulated.",
        caption=f"Jobs by recorded wait and by wait {how}. Framed cells: the same class in both ({same} of the "
        "jobs). Below the frames, jobs waited longer in the record; above them, in the simulation. Empty cells have "
        "no job.",
        high=NARROW,
    )


def _ends(most: int) -> list[int]:
    """Return the largest count of each shade except the last: round numbers, each about four times the number before.

    >>> _ends(20_000), _ends(3)
    ([100, 500, 2000, 5000], [1, 2])
    """
    if most <= SHADES:
        return list(range(1, most))
    return sorted({_round(most / 4.0**k) for k in range(1, SHADES)})


def _round(value: float) -> int:
    """Return the smallest of 1, 2, 5, 10, ... that is at least the value."""
    size = 10.0 ** np.floor(np.log10(max(value, 1.0)))
    return int(next(step * size for step in (1, 2, 5, 10) if step * size >= value))


def _legend(ends: list[int]) -> list[str]:
    lows = [1, *(end + 1 for end in ends)]
    last = f"{counted(lows[-1])} and more"
    return [*(f"{low:,}" if low == high else f"{low:,} to {high:,}" for low, high in zip(lows, ends)), last]


HATCHINGS = ("/", "\\", "x", ".", "+", "|", "-")
MOST_USERS = len(HATCHINGS)
OTHER_USERS = {"slot": 0, "pattern": "", "opacity": 0.5}


def owners(users: Nominal, processor_s: np.ndarray) -> tuple[Colouring | None, list[int]]:
    """Return the colours of n jobs by user, the user with most processor-seconds first, and each job's position in its
    series; None if no user is known."""
    is_named = users.is_known()
    if not is_named.any():
        return None, []
    time = np.bincount(users.codes[is_named], processor_s[is_named], len(users.categories))
    here = np.bincount(users.codes[is_named], minlength=len(users.categories)) > 0
    ranked = sorted(np.flatnonzero(here).tolist(), key=lambda code: -time[code])
    first = ranked[:MOST_USERS]
    series: list[Mapping[str, Any]] = [
        {"name": f"user {users.categories[code]}", "slot": place + 1, "pattern": HATCHINGS[place]}
        for place, code in enumerate(first)
    ]
    rest = len(ranked) - len(first)
    if rest or not is_named.all():
        series.append({"name": f"others ({rest} users)" if rest else "others", **OTHER_USERS})
    place_of = {code: place for place, code in enumerate(first)}
    return Colouring("whose it is", "whose", series), [place_of.get(code, len(first)) for code in users.codes.tolist()]


BINS = 160
QUEUE_SLOT, BUSY_SLOT = 4, 0
HOW_TO = (
    "The lower strip shows the whole time span: drag across it to choose what is shown above, drag the chosen part or "
    "its ends to move them. By keys: arrows move it, + and − widen and narrow it, Escape (or a double click or tap) "
    "shows all."
)


def _queue(schedules: Mapping[str, Jobs], low: float, high: float, layout: Mapping[str, Any]) -> Figure:
    """Return the figure of the queue under the Gantt chart, between two instants."""
    traces = []
    for name, each in schedules.items():
        at, processors, jobs = waiting(each.submit, each.start, each.procs, low, high)
        values = {"x": short(at - low), "y": short(processors, 1), "customdata": short(jobs, 1)}
        words = "%{y} processors, by %{customdata} jobs"
        traces.append({**_area("waited for", name, QUEUE_SLOT), **values, "hovertemplate": words})
    most = f"{max(traces[0]['y']):,.0f} at most under {next(iter(schedules))}"
    layout = {**layout, "yaxis": {"title": {"text": "processors waited for"}, "rangemode": "tozero"}}
    alt = f"Processors waited for over the same time; {most}."
    return Figure("Processors waited for", traces, layout, alt, height=160)


def _overview(schedules: Mapping[str, Jobs], total: int, low: float, high: float, layout: Mapping[str, Any]) -> Figure:
    """Return the figure of the busy processors, with which the reader selects the time range of the other figures."""
    traces, edges = [], np.linspace(low, high, BINS + 1)
    for name, jobs in schedules.items():
        busy = busy_share(jobs.start, jobs.end, jobs.procs.astype(float), edges, total)
        values = {"x0": 0, "dx": (high - low) / BINS, "y": short(np.append(busy, busy[-1]))}
        traces.append({**_area("busy", name, BUSY_SLOT), **values, "hovertemplate": "%{y:.0%} of the processors"})
    title = "all of it: share of the processors busy"
    most = max(1.0, *(max(trace["y"]) for trace in traces))
    mean = f"{sum(traces[0]['y'][:-1]) / BINS:.0%} on average under {next(iter(schedules))}"
    layout = {**layout, "yaxis": {"title": {"text": title}, "tickformat": ".0%", "range": [0, most]}}
    alt = f"Share of the processors busy over all of that time; {mean}."
    return Figure("Overview", traces, layout, alt, HOW_TO, 150, overview=True)


def _area(name: str, variant: str, slot: int) -> dict[str, Any]:
    line = {"shape": "hv", "width": 1.5}
    meta = {"slot": slot, "variant": variant}
    return {"type": "scatter", "name": name, "mode": "lines", "fill": "tozeroy", "line": line, "meta": meta}


def waiting(
    submit: np.ndarray, start: np.ndarray, procs: np.ndarray, low: float, high: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return instants, and the numbers of waiting processors and waiting jobs from each instant on; a job waits from
    submission to start.

    If the numbers change more than `POINTS` times, the result has their means over equal time intervals, each at its
    interval's beginning.
    """
    at, sums = steps(submit, start, np.column_stack([procs, np.ones_like(procs)]), low, high)
    if len(at) > POINTS:
        at = np.linspace(low, high, POINTS + 1)
        weights = (procs.astype(float), np.ones(len(procs)))
        sums = np.column_stack([busy_share(submit, start, one, at, 1.0) for one in weights])
        at = at[:-1]
    held = np.vstack([sums, sums[-1:]])
    return np.append(at, high), held[:, 0], held[:, 1]


def short(values: np.ndarray, digits: int = 3) -> list[int | float]:
    """Return numbers in few JSON characters: whole numbers are written without a decimal point.

    >>> short(np.array([1.0, 2.34567]))
    [1, 2.346]
    """
    return [int(v) if v == int(v) else v for v in np.round(values, digits).tolist()]


MOST_BARS = 1000
MOST_SCHEDULES = 10
LENGTHS = tuple(3600.0 * hours for hours in (168, 72, 24, 12, 6, 3, 1))
AS_RECORDED = "as recorded"
WAITED, PASSED, AT_ONCE = "waited", "passed a waiting job (backfilled)", "started at once"
HOW = Colouring("how it started", "how", [
    {"name": name, "slot": slot, "pattern": pattern}
    for slot, (name, pattern) in enumerate(((AT_ONCE, "."), (WAITED, ""), (PASSED, "/")), 1)
])  # fmt: skip
INSTANT = 1.0  # seconds: shorter differences come from the batch system's cycle


class Jobs(NamedTuple):
    """The drawn jobs of one schedule: arrays (n,), seconds on the log's clock; `row` is the job's row in the log."""

    row: np.ndarray
    submit: np.ndarray
    start: np.ndarray
    end: np.ndarray
    procs: np.ndarray
    backfilled: np.ndarray

    def within(self, low: float, high: float) -> Jobs:
        """Return the jobs that run at some time between two instants."""
        inside = (self.start < high) & (self.end > low) & (self.end > self.start) & (self.procs > 0)
        return Jobs(*(column[inside] for column in self))


def gantt(evaluation: Evaluation) -> Figure | None:
    """Return the Gantt excerpt with a choice of schedules (at most `MOST_SCHEDULES`); None if nothing was simulated.

    The window is the week in which the first schedule gives most processor time to jobs that passed a waiting job (if
    no job passed another: in which waiting jobs request most processors), or the whole log if it is shorter. If more
    than `MOST_BARS` bars would be drawn, the window is a shorter time range of that week (3 days, a day, ... an hour),
    chosen by the same rule, that has fewer bars. If a schedule still has too many bars, only the bars with the most
    processor time are drawn.
    """
    if not evaluation.outcomes:
        return None
    drawn = _schedules(evaluation)
    first = next(jobs for name, jobs in drawn.items() if name != AS_RECORDED)
    if not (first.end > first.start).any():
        return None
    total = evaluation.outcomes[0].schedule.total
    low, high = window(first, total)
    local = calendar(evaluation.trace, low)
    zero = local.replace(tzinfo=UTC).timestamp()  # the page's script shows every instant in UTC
    here = {name: jobs.within(low, high) for name, jobs in drawn.items()}
    bars = {name: _bars(jobs, total, low, name) for name, jobs in here.items()}
    traces = [trace for trace, _ in bars.values()]
    left_out, shown = max(more for _, more in bars.values()), max(len(trace["x"]) for trace in traces)
    rows, colourings = _shared(evaluation, here, traces, low, high)
    highest = [y + width / 2 for trace in traces for y, width in zip(trace["y"], trace["width"])]
    top = max(total, int(max(highest, default=0)))
    caption = _caption(high - low, bool(_passing(first).any()), left_out, len(evaluation.outcomes) - MOST_SCHEDULES)
    if top > total:
        caption += f" The recorded jobs use up to {top:,} processors at once, more than the machine's {total:,}."
    xaxis = {
        "type": "date", "title": {"text": f"time ({evaluation.trace.info.timezone})"}, "origin": zero * 1000,
        "range": [zero * 1000, (zero + high - low) * 1000],
    }  # fmt: skip
    layout = {
        "barmode": "overlay", "bargap": 0, "xaxis": xaxis,
        "yaxis": {"title": {"text": "processor"}, "range": [0, top], **({"dtick": 1} if total <= 12 else {})},
        "hovermode": "closest",
    }  # fmt: skip
    length = {604800.0: "a week", 86400.0: "a day", 3600.0: "an hour"}.get(high - low, span(high - low))
    when = f"{length} from {local:%Y-%m-%d %H:%M}"
    strip = {"xaxis": {key: xaxis[key] for key in ("type", "origin", "range")}, "hovermode": "closest"}
    below = _queue(drawn, low, high, strip), _overview(drawn, total, low, high, strip)
    return Figure(
        f"A Gantt excerpt: {when}", traces, layout, f"Which jobs use which of {total:,} processors for {when}, under "
        f"{', '.join(drawn)}; {shown:,} bars at most.", caption, 480, pick=tuple(drawn), rows=rows,
        colourings=colourings, below=below,
    )  # fmt: skip


def window(jobs: Jobs, total: int) -> tuple[float, float]:
    """Return the time range to draw, with at most `MOST_BARS` bars, as two instants; see `gantt`."""
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
    """Return the jobs that waited and then started before a job that was submitted earlier."""
    return np.asarray(jobs.backfilled & (jobs.start - jobs.submit >= INSTANT))


def pieces(jobs: Jobs, total: int) -> np.ndarray:
    """Return blocks of adjacent processors, (3, m) integers: position of the job, first processor, number of
    processors.

    A recorded log may use more processors at once than the machine has; surplus processors are drawn above the
    machine's.
    """
    time = np.concatenate([jobs.end, jobs.start])
    order = np.lexsort((np.repeat([0, 1], len(jobs.start)), time))
    most = np.cumsum(np.concatenate([-jobs.procs, jobs.procs])[order]).max(initial=0)
    held = assign_processors(jobs.start, jobs.end, jobs.procs, max(total, int(most)))
    rows = [(k, low, high - low + 1) for k, blocks in enumerate(held) for low, high in blocks]
    return np.array(rows, dtype=np.int64).reshape(-1, 3).T


def _schedules(evaluation: Evaluation) -> dict[str, Jobs]:
    """Return every schedule under the name that readers see; the recorded schedule comes last."""
    schedules = {}
    for each in evaluation.outcomes[:MOST_SCHEDULES]:
        s = each.schedule
        name = f"{policy_words(each.policy)} planned with {spec_words(each.predictor)}"
        schedules[name] = Jobs(s.rows, s.submit_time, s.start_time, s.end_time, s.procs, s.backfilled)
    submit, wait, run = outcome(evaluation.trace)
    procs = np.nan_to_num(evaluation.trace.procs(evaluation.procs)).astype(np.int64)
    begun, known = submit + wait, ~np.isnan(run) & (evaluation.trace.wait_time >= 0)
    columns = (np.arange(len(submit)), submit, begun, begun + np.nan_to_num(run), procs, np.zeros(len(submit), bool))
    if known.any():
        schedules[AS_RECORDED] = Jobs(*(column[known] for column in columns))
    return schedules


def _bars(jobs: Jobs, total: int, low: float, variant: str) -> tuple[dict[str, Any], int]:
    """Return the trace of a schedule, one bar per block of adjacent processors, and the number of blocks left out."""
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
    """Return the columns that the bars of all schedules share, and the colourings that the reader can choose.

    A user has the same color under every schedule: users are ranked by their processor time within the window over all
    schedules.
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
        if (own != procs[row]).any():  # a job was reduced to the machine's size
            bars["procs"] = own.tolist()
    users = trace.nominal("user_id").take(used)
    colouring, whose = owners(users, time[used])
    jobs_and_users = zip(trace.job_id[used].tolist(), users.decode())
    rows: dict[str, Any] = {
        "job": [f"job {job}" + ("" if user is None else f" of user {user}") for job, user in jobs_and_users],
        "procs": procs.tolist(),
        "submit": short(trace.submit_time[used] - low),
    }
    return (rows, (HOW,)) if colouring is None else (rows | {"whose": whose}, (HOW, colouring))


def _caption(length: float, passing: bool, left_out: int, more: int) -> str:
    where = "has jobs waiting for the most processors"
    if passing:
        where = "gives most processor time to jobs that started before an earlier waiting job"
    text = "Each bar is a job. The model only counts processors; the figure places each job on any free processors. "
    if length in LENGTHS:
        part = "the week" if length == LENGTHS[0] else f"the longest part of a week with at most {MOST_BARS:,} bars,"
        text += f"The figure shows {part} in which the first schedule {where}."
    if left_out:
        text += f" Up to {left_out:,} of the smallest bars of a schedule are not drawn."
    text += f" If the queue changes more than {POINTS} times, its strip shows means of 1/{POINTS} of the time."
    if more > 0:
        text += f" {more} more schedules are not shown here; choose with --policy and --predictor."
    return text
