"""The machine over time: how busy it is and how long the queue, as recorded and under every schedule."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..evaluation.evaluation import Evaluation
from ..evaluation.periods import periods
from ..evaluation.simulated import YARDSTICK
from ..events.recorded import outcome
from ..metrics.curves import busy_share, mean_count
from . import figures
from .blocks import Block, Figure
from .choose import chosen
from .gantt import gantt
from .glance import LEAST_PERIODS
from .minus import Gap, or_minus
from .policy_words import policy_words

RECORDED = "recorded"


def machine_blocks(evaluation: Evaluation, slots: Mapping[str, int]) -> list[Block]:
    """Per policy, queue length and utilization over time, a line per predictor beside the record; a Gantt excerpt."""
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
    waited = np.where(evaluation.trace.wait_time >= 0, submit + wait, np.nan)  # an unknown wait has no length
    busy = {RECORDED: busy_share(submit + wait, submit + wait + run, procs, edges, total)}
    queue = {RECORDED: mean_count(submit, waited, edges)} if not np.isnan(waited).all() else {}
    blocks: list[Block] = []
    for policy in dict.fromkeys(each.policy for each in evaluation.outcomes):
        busy_here, queue_here = dict(busy), dict(queue)
        for each in evaluation.outcomes:
            if each.policy == policy:
                schedule = each.schedule
                busy_here[each.predictor] = busy_share(
                    schedule.start_time, schedule.end_time, schedule.procs, edges, total
                )
                queue_here[each.predictor] = mean_count(schedule.submit_time, schedule.start_time, edges)
        blocks += [
            _over_time(f"Queue under {policy_words(policy)}", policy, queue_here, starts, unit, slots, QUEUE),
            _over_time(f"Utilization under {policy_words(policy)}", policy, busy_here, starts, unit, slots, BUSY),
        ]
    return [*blocks, *drawn]


SHORT = "The log is too short to show anything over time."
CAPTION = (
    "All jobs, also those not scored. Where the recorded line and that of the users' limits part, the real scheduler "
    "did something the model does not know: other rules, broken nodes, reserved time."
)
QUEUE = ("jobs waiting, mean of the {unit}", False)
BUSY = ("share of the processors busy", True)


def _over_time(
    title: str,
    policy: str,
    series: Mapping[str, np.ndarray],
    starts: list[str],
    unit: str,
    slots: Mapping[str, int],
    axis: tuple[str, bool],
) -> Figure:
    words, share = axis
    figure = figures.lines(
        title,
        {name: (starts, values) for name, values in series.items()},
        x=unit,
        y=words.format(unit=unit),
        share=share,
        slots=slots,
        caption=CAPTION if not share else "",
        alt=f"{title}: {words.format(unit=unit)}. "
        + "; ".join(f"{name}: mean {_mean(values, share)}" for name, values in series.items())
        + ".",
    )
    against = series[YARDSTICK]
    gaps = {n: Gap(starts, v - against) for n, v in series.items() if n not in (YARDSTICK, RECORDED)}
    figure = chosen(figure, list(series), policy=policy)
    return or_minus(figure, gaps, YARDSTICK, "without the record.", share=share)


def _mean(values: np.ndarray, share: bool) -> str:
    known = values[np.isfinite(values)]
    if not len(known):
        return "unknown"
    return f"{100 * known.mean():.1f} %" if share else f"{known.mean():.1f}"
