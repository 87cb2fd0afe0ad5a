# SPDX-License-Identifier: Apache-2.0
"""Is a simulation close enough to the recorded waits to be trusted?

One verdict follows from the recorded and the simulated waits of the same jobs; `evaluate`, `simulate` and the page use
it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np

from ..events.machine_size import LEARNED, SOURCE, InUse, in_use
from ..events.recorded import outcome
from ..events.setup import RunSetup
from ..machines.machine import Machine
from ..metrics.curves import cdf_distance, rank_correlation
from ..metrics.measure import mean
from ..simulation import Policy
from ..simulation.models import YARDSTICK, Model, Nodes, Pool
from ..simulation.schedule import Schedule
from ..table import Trace

MINUTE = 60.0
"""Shorter waits count as none: they come from the log's clock and the scheduler's cycle, not from a queue."""
EQUAL_WITHIN = 2.0
"""Waits within this factor of each other count as equal."""


@dataclass(frozen=True, slots=True, eq=False)
class ComparedWaits:
    """Rows of the log (m,) and the seconds that these jobs waited as recorded and as simulated, (m,) each.

    `from_eligible`: waits are counted from when a job was eligible, because the time on hold is equal in the record and
    in the simulation.
    """

    rows: np.ndarray
    recorded: np.ndarray
    simulated: np.ndarray
    from_eligible: bool = False

    def shares(self) -> tuple[float, float, float]:
        """Return three shares of jobs: equal waits, longer recorded waits, longer simulated waits.

        Two waits count as equal if both are below a minute, or if they differ by less than the factor `EQUAL_WITHIN`,
        where less than a minute counts as one minute. The three shares add up to 1; NaN if there are no jobs. O(m).

        >>> four = np.array([10.0, 100.0, 900.0, 50.0])
        >>> ComparedWaits(np.arange(4), four, np.array([50.0, 199.0, 100.0, 900.0])).shares()
        (0.5, 0.25, 0.25)
        """
        if not len(self.rows):
            return (float("nan"),) * 3
        recorded, simulated = np.maximum(self.recorded, MINUTE), np.maximum(self.simulated, MINUTE)
        longer, shorter = recorded >= EQUAL_WITHIN * simulated, simulated >= EQUAL_WITHIN * recorded
        return float((~longer & ~shorter).mean()), float(longer.mean()), float(shorter.mean())


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """The record with which simulations are compared, made once for all models of a machine.

    `inside` (n,) marks the compared jobs. `used` are the processors in use, `busy` is their mean from the first
    submission to the last end, `work` (n,) are the core-seconds of each job (NaN: unknown), and `gaps` the jobs with a
    need that a pool of processors does not model (`not_covered`).
    """

    trace: Trace
    inside: np.ndarray
    used: InUse
    busy: float
    work: np.ndarray
    gaps: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, trace: Trace, mask: np.ndarray | None = None, procs: str = "req") -> Recorded:
        """Return the record of a log, with all jobs compared if `mask` (n,) is None."""
        inside, width = np.ones(len(trace), bool) if mask is None else np.asarray(mask, bool), trace.procs(procs)
        submit, wait, run = outcome(trace)
        work = run * width
        known = ~np.isnan(work)
        length = float((submit + wait + run)[known].max() - submit.min()) if known.any() else 0.0
        busy = float(work[known].sum()) / length if length > 0 else float("nan")
        return cls(trace, inside, in_use(trace, width), busy, work, not_covered(trace))

    def core_seconds(self, without: Sequence[int] | np.ndarray = ()) -> float:
        """Return the known core-seconds of all jobs except the given rows."""
        others = ~np.isnan(self.work)
        others[np.asarray(without, np.int64)] = False
        return float(self.work[others].sum())

    def size(self) -> tuple[float, str]:
        """Return the processors of the recorded machine, and the source of that number: the log's header, unless
        recorded jobs used far more processors; then the log's `max_procs`.

        >>> from batchcast.table import LogInfo
        >>> info = LogInfo(max_procs=512.0, max_procs_source="--procs-total", header={"MaxProcs": "338 (batch)"})
        >>> Recorded.of(Trace.from_arrays({"submit_time": [0.0]}, info)).size()
        (338.0, 'the header')
        """
        info = self.trace.info
        number = re.match(r"\s*(\d+)", info.header.get("MaxProcs", ""))
        if number and float(number[1]) > 0 and self.used.share_over(float(number[1])) <= MOST_LEFT:
            return float(number[1]), "the header"
        return info.max_procs, info.max_procs_source

    def waits(self, schedule: Schedule, *, without_holds: bool = False) -> ComparedWaits:
        """Return the waits of the compared jobs that were simulated and have a recorded wait.

        `without_holds` subtracts the time that a job was on hold, if any job was on hold for more than a minute.
        """
        trace, rows = self.trace, schedule.rows
        both = self.inside[rows] & (trace.wait_time[rows] >= 0)
        recorded, simulated = trace.wait_time[rows][both], schedule.wait_time[both]
        held = trace.number("eligible_time") - trace.submit_time
        apart = without_holds and bool((held > MINUTE).any())
        if apart:  # time on hold is taken from the record, so it would make the waits look too similar
            held = np.maximum(np.nan_to_num(held), 0.0)[rows][both]
            recorded, simulated = np.maximum(recorded - held, 0.0), np.maximum(simulated - held, 0.0)
        return ComparedWaits(rows[both], recorded, simulated, apart)


FACTOR = 2.0
"""Mean waits that differ by more than this factor count as different."""
MOST_DISTANCE = 0.2
"""Limit for the distance of waits: two runs of one real Slurm differ by .02 to .09, another policy by .09 to .15 and
more."""
MOST_LEFT = 0.05
"""Share of core-hours, jobs or utilization that a close simulation may miss."""
SAME_JOBS = 0.9
"""From this rank correlation on, the same jobs wait, so what the model omits hardly matters."""
NEAR_MEANS = 1.5
"""A simulation is close only if the recorded and the simulated mean wait differ by less than this factor."""
LEAST_RANK = 0.3
"""Below this rank correlation, the jobs that wait in the simulation are not the jobs that waited in the record."""
LEAST_WAITED = 200
"""A simulation is close only if at least this many jobs waited a minute or more, because fewer may agree by chance."""


MODELLED_ON_NODES = ("memory", "GPUs", "partitions", "priorities", "holds")
MODELLED_AS_LEARNED = MODELLED_ON_NODES[1:]
"""Reasons of `not_covered` that the simulation of a described machine, and of a learned machine, does model."""


class Verdict(StrEnum):
    """How well a simulation reproduces the recorded waits."""

    CLOSE = "close"
    ROUGH = "rough"
    FAR = "far"
    UNCHECKED = "unchecked"


STATED = (Verdict.CLOSE, Verdict.ROUGH)
"""The verdicts on a simulation for which a report states gains."""
DOUBTS = {
    Verdict.ROUGH: "the simulation reproduces the recorded waits only roughly: its gains are a hint",
    Verdict.FAR: "the simulation does not reproduce the recorded waits: its gains are not to be trusted",
    Verdict.UNCHECKED: "the log records no waits to check the simulation by: its gains are not to be trusted",
}
MADE_FROM_LOG = {SOURCE: "slurm_by_log", LEARNED: "slurm_learned"}
"""Name of a schedule's policy on a machine that was derived from the log."""


class Doubt(StrEnum):
    """A reason not to trust a simulation."""

    MEAN_WAIT = "mean_wait"
    MEAN_NOT_NEAR = "mean_not_near"
    RANK = "rank"
    FEW_WAITED = "few_waited"
    DISTRIBUTION = "distribution"
    UTILIZATION = "utilization"
    WORK_CUT = "work_cut"
    WORK_LEFT_OUT = "work_left_out"
    UNCOVERED = "uncovered"
    MACHINE = "machine"


_KEYS = (
    *("jobs", "verdict", "trusted", "doubts", "recorded_mean_wait_s", "simulated_mean_wait_s"),
    *("recorded_median_wait_s", "simulated_median_wait_s", "recorded_over_simulated", "wait_distance"),
    *("wait_rank_correlation", "waited_jobs", "mean_wait_error_s", "recorded_utilization", "simulated_utilization"),
    *("cut_jobs", "cut_core_hours_share", "left_out_core_hours_share", "uncovered_share", "judged_procs"),
    "judged_procs_source",
)
_OTHER_NAMES = {
    **{"recorded_over_simulated": "ratio", "wait_rank_correlation": "rank_correlation", "mean_wait_error_s": "error_s"},
    **{"cut_core_hours_share": "cut_share", "left_out_core_hours_share": "left_out_share", "judged_procs": "procs"},
    "judged_procs_source": "procs_source",
}
"""The keys of a validity's row in JSON, in order, and the attributes of those keys that have another name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """Comparison of the recorded and the simulated waits of the same jobs. Waits are in seconds, and shares are
    fractions.
    """

    jobs: int  # Number of scored jobs with a recorded and a simulated wait, and number of all scored jobs
    all_jobs: int
    recorded_mean_wait_s: float
    simulated_mean_wait_s: float
    recorded_median_wait_s: float
    simulated_median_wait_s: float
    # Number of scored jobs with a need that the model ignores, by need; and number of jobs with at least one ignored
    # need.
    uncovered: Mapping[str, int]
    uncovered_jobs: int
    # The largest difference of the two distributions of waits (Kolmogorov & Smirnov), where waits below a minute count
    # as zero.
    wait_distance: float = 0.0
    # Spearman's rank correlation of recorded and simulated waits, which shows whether the same jobs wait.
    rank_correlation: float = float("nan")
    waited_jobs: int = 0  # Number of scored jobs whose recorded wait is a minute or more
    # Utilization of the simulated machine as recorded and as simulated, from the first submission to the last end.
    recorded_utilization: float = float("nan")
    simulated_utilization: float = float("nan")
    # Number of jobs that the simulation ends at their limit although they ran longer, and the share of all core-hours
    # lost by this.
    cut_jobs: int = 0
    cut_share: float = 0.0
    left_out_share: float = 0.0  # The share of all core-hours that belongs to jobs that were not simulated
    # Size of the simulated machine in processors, the source of this size, the most processors that recorded jobs used
    # at once, and the share of core-hours used beyond this size (some is normal, because of the log's whole seconds).
    procs: float = float("nan")
    procs_source: str = ""
    peak: float = float("nan")
    over_share: float = 0.0
    # The model that decided the simulated starts: `easy`, `slurm` (a described machine), `slurm_by_log` (a machine
    # derived from the log), `slurm_learned` (learned from the log's first part).
    policy: str = "easy"
    # Whether waits count from when a job was eligible; the simulation then holds each job as long as recorded.
    from_eligible: bool = False
    # The recorded and simulated waits of each compared job.
    waits: ComparedWaits | None = field(default=None, repr=False, compare=False)

    @property
    def ratio(self) -> float:
        """Return recorded / simulated mean wait; 1 if no job waits a minute in the record or in the simulation, NaN
        without recorded waits."""
        recorded, simulated = self.recorded_mean_wait_s, self.simulated_mean_wait_s
        if recorded < MINUTE and simulated < MINUTE:
            return 1.0
        return recorded / simulated if simulated else float("inf")

    @property
    def error_s(self) -> float:
        """Return the absolute difference between the recorded and the simulated mean wait, seconds."""
        return abs(self.recorded_mean_wait_s - self.simulated_mean_wait_s)

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """Return the reasons not to trust the simulation, the most serious first."""
        signs = {
            Doubt.MEAN_WAIT: not 1 / FACTOR <= self.ratio <= FACTOR,
            Doubt.MEAN_NOT_NEAR: not 1 / NEAR_MEANS <= self.ratio <= NEAR_MEANS,
            Doubt.RANK: not self.rank_correlation >= LEAST_RANK,
            Doubt.FEW_WAITED: self.waited_jobs < LEAST_WAITED,
            Doubt.DISTRIBUTION: self.wait_distance > MOST_DISTANCE,
            Doubt.WORK_LEFT_OUT: self.left_out_share > MOST_LEFT,
            Doubt.WORK_CUT: self.cut_share > MOST_LEFT,
            Doubt.UTILIZATION: abs(self.recorded_utilization - self.simulated_utilization) > MOST_LEFT,
            Doubt.MACHINE: self.over_share > MOST_LEFT,
            Doubt.UNCOVERED: self.uncovered_jobs > MOST_LEFT * self.all_jobs and not self.rank_correlation >= SAME_JOBS,
        }
        return tuple(doubt for doubt, holds in signs.items() if holds)

    @property
    def verdict(self) -> Verdict:
        """How well the simulation reproduces the recorded waits.

        `close`: there is no reason to doubt the simulation. `far`: the mean waits differ by more than a factor of 2, or
        neither the distributions nor the ranks of recorded and simulated waits agree. `rough`: there is any other
        reason to doubt the simulation. `unchecked`: the log has no recorded waits.
        """
        if not self.jobs:
            return Verdict.UNCHECKED
        doubts = self.doubts
        if Doubt.MEAN_WAIT in doubts or {Doubt.DISTRIBUTION, Doubt.RANK} <= set(doubts):
            return Verdict.FAR
        return Verdict.ROUGH if doubts else Verdict.CLOSE

    @property
    def trusted(self) -> bool:
        """Whether gains in this simulation count as measurements and not only as hints."""
        return self.verdict is Verdict.CLOSE

    def row(self) -> dict[str, Any]:
        """Return the comparison as one flat object for JSON."""
        uncovered = self.uncovered_jobs / self.all_jobs if self.all_jobs else float("nan")
        own = {"verdict": str(self.verdict), "doubts": " ".join(self.doubts), "uncovered_share": uncovered}
        named = {"policy": self.policy, "predictor": "requested", "part": "validity"}
        return named | {key: own[key] if key in own else getattr(self, _OTHER_NAMES.get(key, key)) for key in _KEYS}


def judge_validity(
    record: Recorded,
    schedule: Schedule,
    *,
    size: tuple[float, str] | None = None,
    modelled: Collection[str] = (),
    policy: str = "easy",
) -> Validity:
    """Compare the simulated waits of a schedule, on the recorded machine under the site's own rules, with the recorded
    waits.

    `size` are the processors of the recorded machine and the source of this number, by default of the schedule.
    `modelled` are the reasons of `not_covered` that this simulation models, and `policy` is the model that decided the
    simulated starts (`Validity.policy`).
    """
    trace, inside = record.trace, record.inside
    waits = record.waits(schedule, without_holds="holds" in modelled)
    recorded, simulated = waits.recorded, waits.simulated
    gaps = {name: gap & inside for name, gap in record.gaps.items() if name not in modelled}
    uncovered = np.logical_or.reduce([np.zeros(len(trace), bool), *gaps.values()])
    total, source = size or (float(schedule.total), "the simulation")
    whole, left = record.core_seconds(), record.core_seconds(without=schedule.rows)
    cut = trace.run_time[schedule.rows] - schedule.run_time
    lost = float((schedule.procs * np.maximum(cut, 0.0)).sum())
    return Validity(
        jobs=len(waits.rows),
        all_jobs=int(inside.sum()),
        recorded_mean_wait_s=mean(recorded),
        simulated_mean_wait_s=mean(simulated),
        recorded_median_wait_s=_median(recorded),
        simulated_median_wait_s=_median(simulated),
        uncovered={name: int(gap.sum()) for name, gap in gaps.items()},
        uncovered_jobs=int(uncovered.sum()),
        wait_distance=cdf_distance(_queued(recorded), _queued(simulated)),
        rank_correlation=rank_correlation(_queued(recorded), _queued(simulated)),
        waited_jobs=int((recorded >= MINUTE).sum()),
        recorded_utilization=record.busy / total,
        simulated_utilization=float(schedule.measures()["utilization"]) * schedule.total / total,
        cut_jobs=int((cut > 0).sum()),
        cut_share=lost / whole if whole else 0.0,
        left_out_share=left / whole if whole else 0.0,
        procs=total,
        procs_source=source,
        peak=record.used.peak,
        over_share=record.used.share_over(total),
        policy=policy,
        from_eligible=waits.from_eligible,
        waits=waits,
    )


def not_covered(trace: Trace) -> dict[str, np.ndarray]:
    """Return the jobs with a need that a single pool of processors does not model, as masks (n,) by reason.

    memory: the job requested an amount of memory. GPUs: the job requested at least one GPU. partitions, priorities:
    the log names several partitions, or several classes of service (QOS), and the job was not in the partition or
    QOS with most jobs (jobs with an unknown partition or QOS are not counted). holds: a dependency, a hold or a begin
    time kept the job from being eligible for more than a minute, which the log counts as waiting.

    >>> log = Trace.from_arrays({"submit_time": [0, 1], "req_mem_kib": [5.0, None], "partition_id": [1, 2]})
    >>> {name: int(mask.sum()) for name, mask in not_covered(log).items() if mask.any()}
    {'memory': 1, 'partitions': 1}
    """
    return {
        "memory": trace.number("req_mem_kib") > 0,
        "GPUs": trace.number("req_gpus") > 0,
        "partitions": _not_the_usual(trace, "partition_id"),
        "priorities": _not_the_usual(trace, "qos"),
        "holds": trace.number("eligible_time") > trace.submit_time + MINUTE,
    }


def _not_the_usual(trace: Trace, name: str) -> np.ndarray:
    codes = trace.nominal(name).codes
    sizes = np.bincount(codes[codes >= 0], minlength=1)
    return np.asarray((codes >= 0) & (codes != sizes.argmax()))


def _queued(waits: np.ndarray) -> np.ndarray:
    return np.where(waits < MINUTE, 0.0, waits)


def _median(values: np.ndarray) -> float:
    return float(np.median(values)) if len(values) else float("nan")


def judge(model: Model, record: Recorded, limits: Schedule | None = None, *, kill: bool = True) -> Validity:
    """Return the validity of a machine model that plans with users' limits. `limits` is the schedule planned with
    users' limits, if it has been simulated already.

    A pool of processors is always evaluated under EASY and with the recorded machine's size, even if
    `trace.info.max_procs` is a size that the user chose. `kill` says whether jobs end at their limits in the
    simulation. All jobs are simulated, and the jobs of `record.inside` are compared. Raises InputError if the machine's
    size is unknown, or all jobs' requests are unknown.
    """
    if isinstance(model, Nodes):
        return judged_on(model.machine_for(record.trace), record, limits or model.run(record.trace, None, YARDSTICK))
    assert isinstance(model, Pool)
    setup = model.setup
    today = RunSetup(setup.procs, wide=setup.wide, default_request=setup.default_request)
    size = record.size()
    pool = replace(model, setup=today if model.split else replace(today, total=size[0]))
    schedule = pool.run(record.trace, Policy(kill=kill), YARDSTICK)
    if model.split:
        size = float(schedule.total), "its partitions"
    return judge_validity(record, schedule, size=size, modelled=("partitions",) if model.split else ())


def judged_on(machine: Machine, record: Recorded, schedule: Schedule) -> Validity:
    """Return the validity of Slurm's loops on a machine; a machine that was derived from the log models fewer
    properties of jobs."""
    from_log, policy = machine.name == SOURCE, MADE_FROM_LOG.get(machine.name, "slurm")
    modelled = MODELLED_AS_LEARNED if machine.name == LEARNED else MODELLED_ON_NODES
    return judge_validity(
        record, schedule, size=(float(machine.cpus), SOURCE if from_log else "its description"),
        modelled=("partitions", "holds") if from_log else modelled, policy=policy,
    )  # fmt: skip
