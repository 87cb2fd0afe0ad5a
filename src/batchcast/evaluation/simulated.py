# SPDX-License-Identifier: Apache-2.0
"""The simulated clock of an evaluation: a pool of processors under a policy, or a described machine under Slurm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..errors import BatchcastError, InputError, NoAnswer
from ..machines.learned.machine import LEARNED, SOURCE, machine_of_log
from ..machines.machine import Machine
from ..predict.protocol import named
from ..processes import Task, under_bars
from ..simulation import Policy, Schedule, simulate, simulate_split
from ..table import Trace
from .accuracy import Maker, predictor
from .validity import MODELLED_AS_LEARNED, MODELLED_ON_NODES, Validity, Verdict, judge_validity, validity

YARDSTICK, ORACLE = "requested", "actual"
SLURM, LEAST_WORK = "slurm", "slurm-least-work"
"""Slurm's loops by the machine's own priorities; or with the least work first, by SiteFactor."""
DOUBTS = {
    Verdict.ROUGH: "the simulation agrees with the recorded mean waits, not with all else: its gains are a hint",
    Verdict.FAR: "recorded and simulated mean waits differ by more than 2x: the simulated gains are not to be trusted",
    Verdict.UNCHECKED: "the log records no waits to check the simulation by: the simulated gains are not to be trusted",
}

Tick = Callable[[int], None] | None


@dataclass(frozen=True, slots=True)
class Pool:
    """What every schedule of an evaluation shares: the log, the processors (of each partition), how it is planned."""

    trace: Trace
    sizes: Mapping[int | str, tuple[float, str]] | None
    seed: int
    makers: Mapping[str, Maker]
    options: Mapping[str, Any]

    def run(self, policy: Policy | None, spec: str, tick: Tick) -> Schedule:
        """The schedule under a policy planned with a fresh predictor; on each partition with one of its own."""

        def make(jobs: Trace, size: float) -> Any:
            return spec if spec in (YARDSTICK, ORACLE) else predictor(spec, jobs, size, self.seed, self.makers)

        if self.sizes is not None and policy is not None:
            return simulate_split(self.trace, self.sizes, policy, make, tick=tick, **self.options)
        planner = make(self.trace, self.trace.info.max_procs)
        return simulate(self.trace, policy, planner, tick=tick, **self.options)

    def judge(self, mask: np.ndarray | None, kill: bool) -> Validity:
        """How near EASY with the users' limits comes to the record, on the recorded machine."""
        return validity(
            self.trace, mask=mask, procs=self.options["procs"], wide=self.options["wide"],
            default_request=self.options["default_request"], kill=kill,
            partitions="together" if self.sizes is None else "split",
        )  # fmt: skip


MADE_FROM_LOG = {SOURCE: "slurm_by_log", LEARNED: "slurm_learned"}


@dataclass(frozen=True, slots=True)
class OnNodes:
    """The same for Slurm's two loops on a machine with nodes."""

    trace: Trace
    machine: Machine
    seed: int
    makers: Mapping[str, Maker]
    options: Mapping[str, Any]

    def run(self, policy: object, spec: str, tick: Tick) -> Schedule:
        """The schedule by the machine's own priorities, planned with a fresh predictor; or `LEAST_WORK` first.

        Then forecasts order the queue as `batchcast plan` can, and Slurm plans with the users' limits as it does.
        """
        from ..machines.simulate_log import (  # sixty kernels more, where a machine is described
            Ordering,
            QueuePlan,
            simulate_on,
        )

        size = float(self.machine.cpus)
        own = spec if spec in (YARDSTICK, ORACLE) else predictor(spec, self.trace, size, self.seed, self.makers)
        if policy != LEAST_WORK:
            return simulate_on(self.machine, self.trace, own, tick=tick, **self.options)
        order = Ordering("limit" if spec == YARDSTICK else "forecast", own)
        return simulate_on(self.machine, self.trace, YARDSTICK, queue=QueuePlan(order=order), tick=tick, **self.options)

    def judge(self, mask: np.ndarray | None, limits: Schedule) -> Validity:
        """How near the schedule planned with the users' limits comes to the record."""
        return judged_on(self.machine, self.trace, limits, mask, self.options["procs"])


def judged_on(
    machine: Machine, trace: Trace, schedule: Schedule, mask: np.ndarray | None, procs: str = "req"
) -> Validity:
    """Slurm's loops with the users' limits on a machine against the record; of a log's own machine less is modelled."""
    from_log, policy = machine.name == SOURCE, MADE_FROM_LOG.get(machine.name, "slurm")
    modelled = MODELLED_AS_LEARNED if machine.name == LEARNED else MODELLED_ON_NODES
    return judge_validity(
        trace, schedule, mask, procs=procs, size=(float(machine.cpus), SOURCE if from_log else "its description"),
        modelled=("partitions", "holds") if from_log else modelled,
        policy=policy,
    )  # fmt: skip


def described_or_own(trace: Trace, machine: Machine | None, procs: str = "req") -> Machine:
    """The machine to simulate on: as described, else the most that the log's own jobs ever held."""
    return machine if machine is not None else machine_of_log(trace, procs)


class Chosen(NamedTuple):
    """The model that is simulated on, how near it comes to the record, and how near the one came that is not."""

    model: Pool | OnNodes | None
    checked: Validity | None
    other: Validity | None
    why_not: str = ""


def choose_model(
    pool: Pool | None, nodes: Callable[[], OnNodes] | None, inside: np.ndarray, kill: bool, tick: Tick
) -> Chosen:
    """The model that holds: the pool of processors where it does, else Slurm's loops where they do.

    The loops (None: never), on the machine that the log itself implies, are tried where the pool is not close to the
    record and the log has what they model beyond it (nodes, partitions, memory, GPUs, classes of service), or where the
    size of a pool is not known. Where neither is close the pool stays, the simpler one; no model where there is none.
    """
    try:
        checked = None if pool is None else pool.judge(inside, kill)
    except (InputError, NoAnswer) as error:
        return Chosen(None, None, None, not_simulated(error))
    enough = checked is not None and (checked.verdict in (Verdict.CLOSE, Verdict.UNCHECKED) or not _has_more(checked))
    if nodes is None or enough:
        return Chosen(pool, checked, None)
    try:
        loops = nodes()
        other = loops.judge(inside, loops.run(None, YARDSTICK, tick))
    except (InputError, NoAnswer):
        return Chosen(pool, checked, None)
    return Chosen(loops, other, checked) if other.verdict is Verdict.CLOSE else Chosen(pool, checked, other)


def simulate_all(
    trace: Trace, model: Pool | OnNodes, policies: Mapping[str, Any], specs: Sequence[str], workers: int, bar: Any
) -> list[tuple[str, str, Schedule]]:  # fmt: skip
    """The schedule of every policy with every predictor, each run with predictors of its own."""
    pairs = [(name, spec) for name in policies for spec in specs]
    tasks = [
        Task(f"Simulating {name}, planned with {named(spec)}", len(trace), partial(model.run, policies[name], spec))
        for name, spec in pairs
    ]
    made = under_bars(f"Simulating {len(pairs)} schedules", tasks, workers, bar)
    return [(*pair, schedule) for pair, schedule in zip(pairs, made)]


def _has_more(checked: Validity) -> bool:
    """Whether the log says something of its jobs that a pool of processors leaves out and nodes do not."""
    return any(checked.uncovered.get(name, 0) for name in MODELLED_ON_NODES if name != "holds")


def not_simulated(error: BatchcastError) -> str:
    """Why nothing was simulated, in a sentence."""
    return f"Nothing was simulated: {error.message} ({error.hint})."
