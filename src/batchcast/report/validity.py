# SPDX-License-Identifier: Apache-2.0
"""The validity line: the recorded and the simulated waits, and how far simulated gains can be trusted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..evaluation.validity import Doubt, Validity, Verdict
from ..units import counted
from .blocks import Block, Callout, Tone, as_text
from .figures import span

if TYPE_CHECKING:
    from ..evaluation.evaluation import Evaluation

LABEL = "Validity."
HAS = {
    "easy": "The model has only processors",
    "slurm": "The model follows the machine's description",
    "slurm_by_log": "The model has the nodes and partitions of the log, without limits or priorities,",
    "slurm_learned": "The model was learned from the first part of the log",
}
COVERED = {
    "easy": "The log has no memory or GPU requests, no second partition and no priorities.",
    "slurm": "Memory, GPUs, partitions and priorities are simulated as in the machine's description.",
    "slurm_by_log": "The simulation has the partitions of the log. It ignores memory, GPUs, limits and priorities.",
    "slurm_learned": "Nodes, GPUs, partitions, limits and the queue order were learned from the first part of the log.",
}
"""What a simulation covers if no job needs more, by its policy."""
RULES = {
    "easy": "under EASY",
    "slurm": "under Slurm's main and backfill loops on the described machine",
    "slurm_by_log": "under Slurm's main and backfill loops on a machine derived from the log (its size is the header's,"
    " else the most processors in use at once)",
    "slurm_learned": "under Slurm's main and backfill loops on the machine learned from the log's first part",
}
NOTHING = "No schedule was simulated, so this report cannot say how much sooner jobs would start."
VERDICTS: dict[Verdict, tuple[Tone, str]] = {
    Verdict.CLOSE: ("good", "The simulation is close to the record."),
    Verdict.ROUGH: ("note", "The simulation is rough: treat its gains as a hint."),
    Verdict.FAR: ("warning", "The simulation does not reproduce the recorded waits: do not trust its gains."),
    Verdict.UNCHECKED: ("warning", "The log has no waits to check the simulation by: do not trust its gains."),
}
GAPS = {
    "memory": "requested memory, which the model ignores",
    "GPUs": "requested GPUs",
    "partitions": "were in another partition than the largest; the model has one pool",
    "priorities": "had another QOS than most jobs; the model has no priorities",
    "holds": "had a dependency, a hold or a begin time, which the model ignores",
}


def validity_line(evaluation: Evaluation) -> Callout:
    """Return the validity line of an evaluation; every evaluation has one."""
    if evaluation.validity is not None:
        return judgement(evaluation.validity, simulated_procs=evaluation.trace.info.max_procs)
    reason = "" if evaluation.trace.info.max_procs > 0 else "The machine's size is unknown. "
    text, tried = NOTHING, evaluation.rejected
    if tried is not None:
        text = (
            "On a machine with the most processors in use at once, the simulated mean wait is "
            f"{span(tried.simulated_mean_wait_s)}; the recorded mean wait is {span(tried.recorded_mean_wait_s)}. "
            "So this report does not say how much sooner jobs would start."
        )
    return Callout(f"{reason}{text}", "warning", LABEL)


def with_judgement(tables: Sequence[Block], judged: Callout) -> list[Block]:
    """Return the tables and the verdict on their simulation, which comes first if the simulation cannot be trusted.

    >>> from batchcast.report.blocks import Table
    >>> [type(block).__name__ for block in with_judgement([Table("waits", [], [])], Callout("no", "warning"))]
    ['Callout', 'Table']
    """
    return [judged, *tables] if judged.tone == "warning" else [*tables, judged]


def judgement(validity: Validity, simulated_procs: float = float("nan"), *, brief: bool = False) -> Callout:
    """Return how far a simulation can be trusted; `simulated_procs` is the number of processors of the machine that was
    simulated for the tables.

    `brief` gives the recorded and the simulated mean wait, their rank correlation and the verdict, in one sentence.
    """
    tone, closing = VERDICTS[validity.verdict]
    what_if = _what_if(validity, simulated_procs)
    if brief and validity.jobs:
        sentences = [f"Mean wait {means(validity)}.", closing, what_if]
    else:
        grounds = [_waits(validity), what_if, _cut(validity), *_doubts(validity), coverage(validity)]
        sentences = [closing, *grounds] if tone == "warning" else [*grounds, closing]
    return Callout(" ".join(filter(None, sentences)), tone, LABEL)


def means(validity: Validity) -> str:
    """Return the recorded and the simulated mean wait, and how similarly both rank the jobs."""
    rank = validity.rank_correlation
    ranks = "" if math.isnan(rank) else f", rank correlation {rank:.2f}"
    held = " (time on hold not counted)" if validity.from_eligible else ""
    recorded, simulated = span(validity.recorded_mean_wait_s), span(validity.simulated_mean_wait_s)
    return f"{recorded} recorded, {simulated} simulated{held}{ranks}"


def _waits(validity: Validity) -> str:
    if not validity.jobs:
        return "The log records no waits, so the simulation cannot be checked against what happened."
    these = f"these {validity.jobs:,} jobs" if validity.jobs > 1 else "this job"
    distance = f"; their distributions differ by {validity.wait_distance:.2f} at most"
    return (
        f"In the record, {these} waited {span(validity.recorded_mean_wait_s)} on average (median "
        f"{span(validity.recorded_median_wait_s)}). Simulated {RULES[validity.policy]} with the users' limits, the "
        f"mean is {span(validity.simulated_mean_wait_s)} (median {span(validity.simulated_median_wait_s)}): "
        f"{_factor(validity)}{distance if validity.wait_distance else ''}."
        + (" Time on hold is not counted, because it is equal in both." if validity.from_eligible else "")
    )


def _factor(validity: Validity) -> str:
    ratio = validity.ratio
    if math.isnan(ratio):
        return "they cannot be compared"
    if math.isinf(ratio) or not ratio:
        return "no simulated job waits" if ratio else "no recorded job waited"
    if ratio == 1 and validity.recorded_mean_wait_s != validity.simulated_mean_wait_s:
        return "both means are below one minute"
    times = max(ratio, 1 / ratio)
    longer, shorter = ("recorded", "simulated") if ratio >= 1 else ("simulated", "recorded")
    return f"the {longer} mean is {times:.1f} times the {shorter} one" if times < 100 else f"the {longer} is far longer"


def _what_if(validity: Validity, simulated_procs: float) -> str:
    """Return a sentence if the machine simulated for the tables is not the recorded machine."""
    if not validity.procs > 0 or not simulated_procs > 0 or int(simulated_procs) == int(validity.procs):
        return ""
    return (
        f"This is checked on the recorded machine, {validity.procs:,.0f} processors by {validity.procs_source}; the "
        f"tables simulate {simulated_procs:,.0f} processors, which no record can confirm."
    )


def _cut(validity: Validity) -> str:
    """Return the core-hours lost by runs that end at their limit, and how to avoid this loss."""
    if not validity.cut_jobs:
        return ""
    lost = as_text(validity.cut_share, "share") if validity.cut_share >= 0.0005 else "less than 0.1 %"
    its, are = ("its", "is") if validity.cut_jobs == 1 else ("their", "are")
    who = f"{counted(validity.cut_jobs)} that ran past {its} limit {are}"
    switch = " (--no-kill keeps them)" if validity.policy == "easy" else ""  # Slurm's loops have no such option
    return f"{who} ended at the limit, which loses {lost} of all core-hours{switch}."


def _doubts(validity: Validity) -> list[str]:
    """Return sentences on the other reasons not to trust the simulation."""
    words = {
        Doubt.RANK: f"The jobs that wait long are not the same as in the record (rank correlation "
        f"{validity.rank_correlation:.2f}).",
        Doubt.FEW_WAITED: f"Only {validity.waited_jobs:,} of the jobs waited for a minute or more in the record.",
        Doubt.DISTRIBUTION: "The distribution of simulated waits differs from the distribution of recorded waits.",
        Doubt.WORK_LEFT_OUT: f"{as_text(validity.left_out_share, 'share')} of the core-hours were not simulated.",
        Doubt.UTILIZATION: f"The machine was {as_text(validity.recorded_utilization, 'share')} busy in the record, "
        f"{as_text(validity.simulated_utilization, 'share')} in the simulation.",
        Doubt.MACHINE: f"Recorded jobs used up to {validity.peak:,.0f} processors at once, "
        f"{as_text(validity.over_share, 'share')} of their core-hours beyond the {validity.procs:,.0f} that the "
        "machine has: its size is wrong.",
    }
    return [words[doubt] for doubt in validity.doubts if doubt in words]


def coverage(validity: Validity) -> str:
    """Return the number of jobs with needs that the simulation's model ignores."""
    if not validity.uncovered_jobs:
        return COVERED[validity.policy]
    share = _part(validity.uncovered_jobs, validity.all_jobs)
    parts = [f"{_part(count, validity.all_jobs)} {GAPS[name]}" for name, count in validity.uncovered.items() if count]
    text = f"{HAS[validity.policy]} and does not cover {share} of the jobs ({'; '.join(parts)})."
    if validity.trusted and validity.uncovered_jobs > 0.05 * validity.all_jobs:
        likeness = f"rank correlation {validity.rank_correlation:.2f}"
        text += f" That hardly matters here: the same jobs wait ({likeness})."
    return text


def _part(count: int, jobs: int) -> str:
    """Return a share of jobs as text, or the number of jobs if the share would read 0.0 %."""
    return as_text(count / jobs, "share") if count >= 0.001 * jobs else f"{count:,} of {jobs:,}"
