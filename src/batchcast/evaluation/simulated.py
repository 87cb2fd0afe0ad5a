# SPDX-License-Identifier: Apache-2.0
"""Simulate the schedules of an evaluation: choose a model of the machine, then run every policy on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ..errors import BatchcastError, InputError, NoAnswer
from ..events.machine_size import LEARNED, SOURCE
from ..machines.machine import Machine
from ..predict.protocol import named
from ..predict.registry import fresh
from ..processes import Task, under_bars
from ..simulation import Policy, Schedule
from ..simulation.models import ORACLE, YARDSTICK, Model, Nodes, Pool, Tick
from ..table import Trace
from .accuracy import Maker, fresh_predictor
from .findings import STATED
from .validity import MODELLED_AS_LEARNED, MODELLED_ON_NODES, Validity, Verdict, judge_validity, recorded_procs

DOUBTS = {
    Verdict.ROUGH: "the simulation reproduces the recorded waits only roughly: its gains are a hint",
    Verdict.FAR: "the simulation does not reproduce the recorded waits: its gains are not to be trusted",
    Verdict.UNCHECKED: "the log records no waits to check the simulation by: its gains are not to be trusted",
}
MADE_FROM_LOG = {SOURCE: "slurm_by_log", LEARNED: "slurm_learned"}
"""Name of a schedule's policy on a machine that was derived from the log."""


def planner_of(spec: str, makers: Mapping[str, Maker], seed: int) -> Any:
    """Return the argument from which `Model.run` makes a new predictor: a name for limits and run times, else a
    function."""
    if spec in (YARDSTICK, ORACLE):
        return spec

    def make(trace: Trace, max_procs: float) -> Any:
        return fresh_predictor(fresh(makers[spec]), trace, max_procs, seed, who=spec)

    make.__name__ = spec  # this name appears in notes about the predictor
    return make


def judge(
    model: Model, trace: Trace, mask: np.ndarray | None, limits: Schedule | None = None, *, kill: bool = True
) -> Validity:
    """Return the validity of a machine model that plans with users' limits. `limits` is the schedule planned with
    users' limits, if it has been simulated already.

    A pool of processors is always evaluated under EASY and with the recorded machine's size, even if
    `trace.info.max_procs` is a size that the user chose. `kill` says whether jobs end at their limits in the
    simulation. `mask` (n,) selects the compared jobs; all jobs are simulated. Raises InputError if the machine's size
    is unknown, or all jobs' requests are unknown.
    """
    if isinstance(model, Nodes):
        return judged_on(
            model.machine_for(trace), trace, limits or model.run(trace, None, YARDSTICK), mask, model.procs
        )
    assert isinstance(model, Pool)
    options = {name: model.options[name] for name in ("wide", "default_request") if name in model.options}
    size = recorded_procs(trace, model.procs)
    pool = replace(model, options=options if model.split else {**options, "total": size[0]})
    schedule = pool.run(trace, Policy(kill=kill), YARDSTICK)
    if model.split:
        size = float(schedule.total), "its partitions"
    modelled = ("partitions",) if model.split else ()
    return judge_validity(trace, schedule, mask, procs=model.procs, size=size, modelled=modelled)


def judged_on(
    machine: Machine, trace: Trace, schedule: Schedule, mask: np.ndarray | None, procs: str = "req"
) -> Validity:
    """Return the validity of Slurm's loops on a machine; a machine that was derived from the log models fewer
    properties of jobs."""
    from_log, policy = machine.name == SOURCE, MADE_FROM_LOG.get(machine.name, "slurm")
    modelled = MODELLED_AS_LEARNED if machine.name == LEARNED else MODELLED_ON_NODES
    return judge_validity(
        trace, schedule, mask, procs=procs, size=(float(machine.cpus), SOURCE if from_log else "its description"),
        modelled=("partitions", "holds") if from_log else modelled,
        policy=policy,
    )  # fmt: skip


class Chosen(NamedTuple):
    """The machine model that is used, its validity, and the validity of the model that is not used."""

    model: Model | None
    checked: Validity | None
    other: Validity | None
    why_not: str = ""

    @property
    def is_stated(self) -> bool:
        """Whether gains may be stated: the model reproduces the recorded waits closely or roughly."""
        return self.checked is not None and self.checked.verdict in STATED


def choose_model(
    trace: Trace, pool: Pool | None, nodes: Callable[[], Nodes] | None, inside: np.ndarray, kill: bool, tick: Tick
) -> Chosen:
    """Return the machine model that reproduces the recorded waits: the pool of processors, else Slurm's loops.

    Slurm's loops on the machine that the log implies (None: never) are tried if the pool is not close to the recorded
    waits and the log has properties that only the loops model (nodes, partitions, memory, GPUs, QOS), or if the size of
    a pool is unknown. If neither model is close, a rough model is preferred to a model that does not reproduce the
    record. If both are equally close, the pool is preferred, because it is simpler. Returns None if neither model can
    be simulated.
    """
    try:
        checked = None if pool is None else judge(pool, trace, inside, kill=kill)
    except (InputError, NoAnswer) as error:
        return Chosen(None, None, None, not_simulated(error))
    enough = checked is not None and (checked.verdict in (Verdict.CLOSE, Verdict.UNCHECKED) or not _has_more(checked))
    if nodes is None or enough:
        return Chosen(pool, checked, None)
    try:
        loops = nodes()
        other = judge(loops, trace, inside, loops.run(trace, None, YARDSTICK, tick=tick))
    except (InputError, NoAnswer):
        return Chosen(pool, checked, None)
    better = other.verdict is Verdict.CLOSE or (other.verdict is Verdict.ROUGH and (
        checked is None or checked.verdict is Verdict.FAR))  # fmt: skip
    return Chosen(loops, other, checked) if better else Chosen(pool, checked, other)


def learn_model(
    trace: Trace, inside: np.ndarray, procs: str, protocol: str, tick: Tick
) -> tuple[Chosen, Trace, np.ndarray, str] | None:
    """Return the machine learned from the log's first part, if it reproduces the waits of the second part.

    Returns the model, the log with the release times of jobs on hold, the scored jobs after the first part, and a
    sentence about what was learned. Returns None if the log has too little data, or if the learned machine does not
    reproduce the second part.
    """
    # imported here because the module loads many kernels that most logs do not need
    from ..simulation.learned.learn import split

    try:
        learned, released, rest = split(trace, procs)
        scored = inside & rest
        model = Nodes(learned.machine, procs, protocol)
        checked = judge(model, released, scored, model.run(released, None, YARDSTICK, tick=tick))
    except (InputError, NoAnswer):
        return None
    if checked.verdict not in STATED:
        return None
    return Chosen(model, checked, None), released, scored, learned.in_short()


def simulate_all(
    trace: Trace, model: Model, policies: Mapping[str, Any], planners: Mapping[str, Any], workers: int, bar: Any
) -> list[tuple[str, str, Schedule]]:
    """Return the schedule of every policy with every predictor; each simulation has its own copy of the predictor."""
    pairs = [(name, spec) for name in policies for spec in planners]

    def run(name: str, spec: str, tick: Tick) -> Schedule:
        return model.run(trace, policies[name], planners[spec], clock=perf_counter, tick=tick)

    tasks = [
        Task(f"Simulating {name}, planned with {named(spec)}", len(trace), partial(run, name, spec))
        for name, spec in pairs
    ]
    made = under_bars(f"Simulating {len(pairs)} schedules", tasks, workers, bar)
    return [(*pair, schedule) for pair, schedule in zip(pairs, made)]


def _has_more(checked: Validity) -> bool:
    """Whether the log's jobs have properties that a model with nodes uses and a pool of processors ignores."""
    return any(checked.uncovered.get(name, 0) for name in MODELLED_ON_NODES if name != "holds")


def not_simulated(error: BatchcastError) -> str:
    """Return a sentence on why nothing was simulated."""
    return f"Nothing was simulated: {error.message} ({error.hint})."
