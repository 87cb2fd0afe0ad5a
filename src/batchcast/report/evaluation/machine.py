# SPDX-License-Identifier: Apache-2.0
"""Figures of the machine's use over time under every schedule, and of recorded against simulated waits of each job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ...evaluation.calendar import periods
from ...evaluation.evaluation import Evaluation
from ...evaluation.validity import MINUTE, MOST_DISTANCE, ComparedWaits
from ...events.recorded import outcome
from ...metrics.accuracy import SIZE_CLASSES, size_class
from ...metrics.curves import busy_share, mean_count
from ...predict.protocol import named
from ...report import figures
from ...simulation.models import YARDSTICK
from ...units import counted
from ..blocks import Block, Figure, shown
from ..difference import Gap, cdf_minus, or_minus
from ..figures import between, tick
from ..validity import RULES
from .gains import FIXED, mark_choices, policy_words
from .gantt import gantt
from .heat_maps import NARROW, Axis, Shades, Texts, heat
from .record import LEAST_PERIODS

RECORDED, SIMULATED = "recorded", "simulated"


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
        mine = {named(each.predictor): each.schedule for each in evaluation.outcomes if each.policy == policy}
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
    limits = named(YARDSTICK)
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
    alike, longer, shorter = (shown(share, "share") for share in waits.shares())
    words = (
        f"The same {counted(len(waits.rows))} as recorded and as {how}. {alike} "
        "of them wait alike in both (less than a factor of two apart, or under a minute); "
        f"{longer} waited at least twice as long in the record, {shorter} at least twice as long in the simulation."
    )
    words += _by_size(evaluation, waits)
    return [words, _distributions(waits, validity.wait_distance, how), density(waits, how)]


def _by_size(evaluation: Evaluation, waits: ComparedWaits) -> str:
    """Return the size class that makes most of the difference, if its share of the difference far exceeds its share of
    the jobs."""
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
        f" Jobs of {SIZE_CLASSES[most]} processors are {shown(float(jobs[most]), 'share')} of the jobs and "
        f"{shown(float(share[most]), 'share')} of the difference in waits."
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
    same = shown(float(np.trace(count[::-1]) / len(waits.rows)), "share")
    return heat(
        "Wait of each job, recorded and simulated",
        Axis("wait as simulated", names[::-1]),
        Axis("wait as recorded", names),
        Shades(shade, _legend(ends)),
        Texts(lambda r, c: counted(count[r, c]), lambda r, c: f"{count[r, c]:,}"),
        alt=f"Jobs by recorded and simulated wait: {same} in the same class in both, "
        f"{shown(float((across > down).mean()), 'share')} in a longer one as recorded, "
        f"{shown(float((across < down).mean()), 'share')} in a longer one as simulated.",
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
