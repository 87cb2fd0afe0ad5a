"""The simulated clock of an evaluation: a pool of processors under a policy, or a described machine under Slurm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..cluster.machine import Machine
from ..simulation import Policy, Schedule, simulate, simulate_split
from ..table import Trace
from ..trace.machine import SOURCE, machine_of_log
from .accuracy import Maker, predictor
from .validity import MODELLED_ON_NODES, Validity, Verdict, judge_validity

YARDSTICK, ORACLE = "requested", "actual"
SLURM = "slurm"
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


@dataclass(frozen=True, slots=True)
class OnNodes:
    """The same for Slurm's two loops on a machine with nodes."""

    trace: Trace
    machine: Machine
    seed: int
    makers: Mapping[str, Maker]
    options: Mapping[str, Any]

    def run(self, policy: object, spec: str, tick: Tick) -> Schedule:
        """The schedule planned with a fresh predictor that learned on the recorded clock; there is no other policy."""
        from ..simulation.slurm_trace import simulate_on  # sixty kernels more, where a machine is described

        size = float(self.machine.cpus)
        own = spec if spec in (YARDSTICK, ORACLE) else predictor(spec, self.trace, size, self.seed, self.makers)
        return simulate_on(self.machine, self.trace, own, tick=tick, **self.options)

    def judge(self, mask: np.ndarray | None, limits: Schedule) -> Validity:
        """How near the schedule planned with the users' limits comes to the record."""
        return judged_on(self.machine, self.trace, limits, mask, self.options["procs"])


def judged_on(
    machine: Machine, trace: Trace, schedule: Schedule, mask: np.ndarray | None, procs: str = "req"
) -> Validity:
    """Slurm's loops with the users' limits on a machine against the record; of a log's own machine less is modelled."""
    from_log = machine.name == SOURCE
    return judge_validity(
        trace, schedule, mask, procs=procs, size=(float(machine.cpus), SOURCE if from_log else "its description"),
        modelled=("partitions", "holds") if from_log else MODELLED_ON_NODES,
        policy="slurm_by_log" if from_log else "slurm",
    )  # fmt: skip


def described_or_own(trace: Trace, machine: Machine | None, procs: str = "req") -> Machine:
    """The machine to simulate on: as described, else the most that the log's own jobs ever held."""
    return machine if machine is not None else machine_of_log(trace, procs)
