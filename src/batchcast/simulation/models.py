# SPDX-License-Identifier: Apache-2.0
"""The models of a machine for a simulation: a pool of processors under a policy, or nodes under Slurm's loops.

The two models implement `Model`, so callers (`simulate`, `evaluate`, `whatif`, a sweep) treat them in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import UsageError
from ..events.machine_size import machine_of_log, partition_sizes
from ..events.setup import RunSetup
from ..machines.machine import Machine, vary
from ..planning.record import OrderBy
from ..predict.registry import name_of
from ..table import Trace
from .schedule import Schedule
from .simulate import run_on_pool, simulate_split

if TYPE_CHECKING:
    from .on_nodes import QueuePlan

YARDSTICK, ORACLE = "requested", "actual"
SLURM, LEAST_WORK = "slurm", "slurm-least-work"
"""Policies of Slurm's loops: the machine's own priorities, or least work first by SiteFactor."""
Clock = Callable[[], float] | None
Tick = Callable[[int], None] | None


def check_on_nodes(policy: Any) -> str:
    """Return a policy of Slurm's loops; UsageError for a policy of a pool of processors, which nodes cannot run."""
    if isinstance(policy, str) and policy in (SLURM, LEAST_WORK):
        return policy
    name = policy if isinstance(policy, str) else getattr(policy, "name", None) or name_of(policy)
    raise UsageError(
        f"policy: a machine with nodes cannot run {name!r} (accepted: {SLURM}, {LEAST_WORK})",
        hint="leave the machine out to simulate this policy on a pool of processors, or leave the policy out",
    )


def policies_on_nodes(policies: Any = None) -> dict[str, str]:
    """Map names for the results to policies of Slurm's loops, by default all of them."""
    if isinstance(policies, Mapping):
        return {name: check_on_nodes(name if policy is None else policy) for name, policy in policies.items()}
    several = (SLURM, LEAST_WORK) if policies is None else policies
    if isinstance(several, str):
        several = [word.strip() for word in several.split(",")]
    checked = map(check_on_nodes, several if isinstance(several, (Sequence, Set)) else [several])
    return {policy: policy for policy in checked}


class Model(Protocol):
    """The protocol of a machine with its scheduler. Every run creates new predictors from `planner`, a form that
    `simulate` accepts."""

    @property
    def setup(self) -> RunSetup:
        """How the log is replayed and simulated."""

    def run(self, trace: Trace, policy: Any, planner: Any, *, clock: Clock = None, tick: Tick = None) -> Schedule:
        """Return the schedule of a log's jobs under a policy, planned with a predictor.

        `clock` reads seconds for `Schedule.kernel_s`; `tick` is called with the number of jobs done.
        """


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool of processors with the size of the log's machine or, with `split`, one pool per partition of the log.

    >>> log = Trace.from_arrays({"submit_time": [0, 0, 1], "run_time": [9, 9, 2], "req_time": [10, 10, 3],
    ...                          "req_procs": [2, 4, 2]})
    >>> Pool(RunSetup(total=4)).run(log, "easy", "requested").start_time.tolist()
    [0.0, 9.0, 1.0]
    """

    setup: RunSetup = RunSetup()
    split: bool = False

    def run(self, trace: Trace, policy: Any, planner: Any, *, clock: Clock = None, tick: Tick = None) -> Schedule:
        """Return the schedule under a policy; with `split` each partition has its own predictor."""
        if self.split:
            sizes = partition_sizes(trace, self.setup.procs)
            return simulate_split(trace, sizes, policy, planner, self.setup, clock=clock, tick=tick)
        return run_on_pool(trace, policy, planner, self.setup, clock=clock, tick=tick)


@dataclass(frozen=True, slots=True)
class Nodes:
    """Slurm's two loops on a machine with nodes; by default on a machine that is derived from the log's jobs.

    `changes` replace settings of the machine (`machines.machine.vary`); `queue` replaces parts of the users' requests.

    >>> from batchcast.machines.machine import homogeneous
    >>> log = Trace.from_arrays({"submit_time": [0.0, 1.0], "run_time": [60.0] * 2, "req_time": [90.0] * 2,
    ...                          "req_procs": [4, 4]})
    >>> Nodes(homogeneous(2, 4, 4000.0)).run(log, None, "requested").total
    8
    """

    machine: Machine | None = None
    setup: RunSetup = RunSetup()
    changes: Mapping[str, str] = field(default_factory=dict)
    queue: QueuePlan | None = None

    def machine_for(self, trace: Trace) -> Machine:
        """Return the machine on which this log's jobs run."""
        machine = self.machine if self.machine is not None else machine_of_log(trace, self.setup.procs)
        return vary(machine, self.changes) if self.changes else machine

    def run(self, trace: Trace, policy: Any, planner: Any, *, clock: Clock = None, tick: Tick = None) -> Schedule:
        """Return the schedule under a policy of Slurm's loops; UsageError for a policy of a pool of processors.

        Under `SLURM`, upper quantiles of the planner replace the limits of waiting jobs, as with `plan = "limits"`.
        Under `LEAST_WORK`, upper quantiles of the planner order the queue, as with `plan = "order"`, and Slurm plans
        with the users' limits. None is the machine's priorities with the planner's point predictions.
        """
        if policy is not None:
            check_on_nodes(policy)
        # imported in this function because the module loads sixty kernels, which a pool of processors does not need
        from .on_nodes import Ordering, QueuePlan, simulate_on

        queue = self.queue or QueuePlan()
        if policy == LEAST_WORK:
            by = OrderBy.LIMITS if planner == YARDSTICK else OrderBy.FORECAST
            queue = replace(queue, order=Ordering(by, planner))
        elif policy == SLURM and planner != YARDSTICK:
            queue = replace(queue, lengths=planner)
        if policy in (SLURM, LEAST_WORK):
            planner = YARDSTICK
        machine = self.machine_for(trace)
        return simulate_on(machine, trace, planner, self.setup, queue=queue, clock=clock, tick=tick)
