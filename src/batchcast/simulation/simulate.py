# SPDX-License-Identifier: Apache-2.0
"""`simulate`: simulates when a trace's jobs start under a policy that plans with a predictor, in closed or open loop.

`simulate_split` simulates partitions as separate machines, each with its own queue.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np

from ..errors import InputError, NoAnswer, UsageError, says_arguments
from ..events.recorded import replay
from ..events.setup import RunSetup
from ..predict.gate import class_codes, lacking
from ..predict.registry import construct, fresh, makes, method_of, name_of, parse_spec
from ..schedule.advance import advance
from ..schedule.state import ASKED, GIVEN, RECENT, KernelState, make_jobs, make_state
from ..table import Trace, check_log
from .clock import DrivenPredictor, possible, system_state, tails_at
from .own_clock import OwnPolicy, OwnRun, nodes_of
from .policies import as_policy
from .policy import Policy
from .schedule import Schedule, schedule_of
from .scheduler import Machine
from .workload import Rings, Workload, make_workload, no_job, requests_of, submitted


@says_arguments
def simulate(
    trace: Trace,
    policy: Any = None,
    predictor: Any = None,
    *,
    total: float | None = None,
    procs: str = "req",
    wide: str = "drop",
    default_request: float | None = None,
    loop: str = "closed",
    protocol: str = "honest",
    plan_level: float | None = None,
    native: bool = True,
    known_at_submit: Sequence[str] = (),
    clock: Callable[[], float] | None = None,
    tick: Callable[[int], None] | None = None,
    nodes: Any = None,
) -> Schedule:
    """Simulate the schedule of a trace's jobs on one machine under a policy.

    Parameters
    ----------
    trace
        The log.
    policy
        A `Policy`, a name with settings (`easy-sjbf:correct=incremental`), or your own scheduler with `start(queue,
        machine, now)`: a class, an object or a factory (see `Scheduler`). Default: EASY.
    predictor
        Predictor used for planning: a predictor's name with settings (`last_2:need=2`), a class, a function that
        creates a predictor for the log, or an object, which the simulation trains. A predictor returns seconds or a
        `Prediction`. Default: the policy's predictor, which is `kernel` for the policy `forecast`, else time limits.
    total
        The machine's number of processors, by default the number that the log gives.
    procs
        How many processors a job uses: `req` (requested, else allocated) or `alloc`.
    wide
        What happens to jobs wider than the machine: `drop`, `widen` or `cut`.
    default_request
        Seconds used to plan jobs without a requested time; by default the log's largest requested time.
    loop, protocol
        `closed`: the predictor learns at the simulated ends. `open`: it learns from the recorded log, under `protocol`
        (`honest` or `paper`).
    plan_level
        Plan with this quantile of a prediction instead of its point.
    native
        False uses the Python predictor even if the kernel has a compiled form of it; the results are equal.
    known_at_submit
        Columns of the log, in addition to batchcast's standard columns, that a predictor may use (`Trace.knowing`).
    clock
        Reads seconds (`time.perf_counter`), for `kernel_s`.
    tick
        Function that is called with the number of simulated jobs, to show progress.
    nodes
        For your own scheduler: the processors of each node, or a `machines.machine.Machine`; by default a pool.

    Returns
    -------
    Schedule
        The start and end of each job, and how many jobs were left out and why.

    Raises
    ------
    UsageError, InputError
        As in `make_workload`: for a value that is not accepted, or a machine of unknown size.
    NoAnswer
        If no job can be simulated, for example because no job has a size; the message counts jobs by reason.
    BatchcastError
        If a predictor returns a negative or infinite value; the message names the job and the value.

    Notes
    -----
    A job takes about 0.3 microseconds if the predictor is compiled, and 20 with a predictor in Python.

    Examples
    --------
    >>> log = Trace.from_arrays({"submit_time": [0, 0, 1], "run_time": [9, 9, 2], "req_time": [10, 10, 3],
    ...                          "req_procs": [2, 4, 2]})
    >>> simulate(log, Policy(), total=4).start_time.tolist()
    [0.0, 9.0, 1.0]
    """
    setup = RunSetup(procs, protocol, loop, wide, default_request, plan_level, total, native)
    trace = check_log(trace).knowing(known_at_submit)
    return run_on_pool(trace, policy, predictor, setup, clock=clock, tick=tick, nodes=nodes)


def run_on_pool(
    trace: Trace,
    policy: Any,
    predictor: Any,
    setup: RunSetup = RunSetup(),
    *,
    clock: Callable[[], float] | None = None,
    tick: Callable[[int], None] | None = None,
    nodes: Any = None,
) -> Schedule:
    """Return the schedule of a log's jobs on one pool of processors, or on `nodes` under a scheduler of the user's
    own."""
    policy = as_policy(policy)
    runtime = policy.predictor if predictor is None else predictor
    machine = () if nodes is None else nodes_of(nodes)
    setup = replace(setup, total=sum(node.procs for node in machine)) if machine else setup
    work = make_workload(trace, setup, kill=policy.kill)
    if not len(work.rows):
        raise no_job(work.left_out)
    if machine and not isinstance(policy, OwnPolicy):
        raise UsageError(f"nodes: {policy.name} plans a pool (accepted: nodes with your own scheduler)",
                         hint="Slurm's two loops on nodes are `batchcast simulate --machine FILE`")  # fmt: skip
    known = _planned_run_times(trace, work, runtime, setup)
    method, notes = (None, ()) if known else _predictor(trace, work, runtime)
    rows, left = (work.rows, trace.job_id[work.rows]), (work.left_out, (*work.notes, *notes))
    planned = known[0] if known else work.lengths()
    jobs = make_jobs(work.submit, work.procs, work.run, work.request, planned)
    if isinstance(policy, OwnPolicy):
        requests, statuses = requests_of(trace, work, setup.procs)
        site = Machine(work.total, machine)
        own = OwnRun(policy, requests, statuses, jobs, site, method, setup.plan_level)
        kernel_s, nodes = timed(partial(own.go, tick), clock), tuple(own.where) if machine else ()
        return schedule_of(jobs, *rows, work.total, own.corrections, *left, kernel_s, nodes)
    similar_class = None
    if policy.refresh:  # jobs of one user with equal requested times are alike
        similar_class = class_codes(submitted(trace, work), ("user_id", "req_time"), len(work.rows))[0]
    state_of = partial(make_state, jobs, work.total, similar_class=similar_class, **policy.rules())
    run: Callable[[], Any]
    in_kernel = setup.native and setup.plan_level is None
    if known:
        state = state_of(planner=GIVEN, tails=known[1])
        run = partial(advance, state)
    elif in_kernel and (rings := Rings.of(method)):
        state = state_of(planner=RECENT, memory=rings.assign(trace, work, jobs))
        run = partial(advance, state)
    else:
        state = state_of(planner=ASKED, ask_overdue=int(hasattr(method, "revise")), log_size=1 << 14)
        if in_kernel and (driven := _driven_by_kernel(trace, work, method, tick)):
            run = partial(driven, state)
        else:
            requests, statuses = requests_of(trace, work, setup.procs)
            at = system_state(work.total, requests)
            run = partial(DrivenPredictor(method, at, setup.plan_level, tick, requests, statuses).go_on, state)
    if clock is not None:
        empty = np.zeros(0)
        advance(make_state(make_jobs(empty, empty, empty, empty, empty), 1))  # load or compile before the measurement
    kernel_s = timed(run, clock)
    return schedule_of(jobs, *rows, work.total, int(state.record["corrections"][0]), *left, kernel_s)


def _planned_run_times(
    trace: Trace, work: Workload, runtime: Any, setup: RunSetup
) -> tuple[np.ndarray, np.ndarray | None] | None:
    """Return each job's planned run time (requested, actual or predicted by a replay), and the predicted quantiles or
    None; None if the run times are predicted during the simulation."""
    name = parse_spec(runtime)[0] if isinstance(runtime, str) else ""
    if name in ("requested", "actual"):
        return work.lengths(name == "actual"), None
    if setup.loop != "open":
        return None
    method = _predictor(trace, work, runtime)[0]
    size = float(work.total)
    forecasts = replay(trace, {name: method}, protocol=setup.protocol, procs=setup.procs, total=size)[name]
    points, tails, level = forecasts.points, None, setup.plan_level
    if forecasts.levels:
        tails = tails_at(forecasts.levels, forecasts.quantiles[work.rows], work.request)
        if level is not None:
            points = np.array([np.interp(level, forecasts.levels, row) for row in forecasts.quantiles])
    said = points[work.rows]
    for row in np.flatnonzero(~(said >= 0.0))[:1].tolist():
        possible(float(said[row]), trace.job_id[work.rows[row]])
    return np.asarray(np.maximum(np.minimum(said, work.request), 1.0)), tails


def _predictor(trace: Trace, work: Workload, runtime: Any) -> tuple[Any, tuple[str, ...]]:
    """Return the predictor, which may use only columns that are known at submission, and a note about columns that it
    uses and that this log lacks."""
    known = trace.info.known_at_submit
    predictor = method_of("runtime", runtime, known_at_submit=known, trace=trace, max_procs=work.total)
    missing = lacking(predictor, trace)
    return predictor, (f"{name_of(runtime)}: no job of this log knows {', '.join(missing)}",) if missing else ()


def _driven_by_kernel(
    trace: Trace, work: Workload, method: Any, tick: Callable[[int], None] | None
) -> Callable[[KernelState], KernelState] | None:
    """Return the compiled simulated clock for a fresh `kernel` predictor; None for any other predictor."""
    from ..predict.runtime.kernel import Kernel  # loads forty kernels, which other predictors do not need

    if type(method) is not Kernel or not method.is_fresh:
        return None
    from ..predict.similarity.coding import coded
    from .kernel_clock import drive_kernel

    return partial(drive_kernel, coded=coded(submitted(trace, work), len(work.rows)), predictor=method, tick=tick)


def timed(run: Callable[[], Any], clock: Callable[[], float] | None) -> float:
    """Run a simulation; return how long it takes in seconds, NaN without a clock."""
    now = clock or (lambda: math.nan)
    before = now()
    run()
    return now() - before


def simulate_split(
    trace: Trace,
    sizes: Mapping[Any, tuple[float, str]],
    policy: Policy | None = None,
    predictor: Any = None,
    setup: RunSetup = RunSetup(),
    *,
    clock: Callable[[], float] | None = None,
    tick: Callable[[int], None] | None = None,
) -> Schedule:
    """Simulate a log whose partitions are separate machines.

    `sizes` gives the number of processors of each partition id, and the source of the number
    (`machines.learned.machine.partition_sizes`). Records without a partition are left out, and so are partitions
    without a job that is known to have run. Each partition has its own predictor (an object is copied) and learns from
    its own jobs only. A job without a requested time is planned with `setup.default_request`, else with the largest
    requested time of the whole log. Raises InputError if the log has no partitions.

    >>> log = Trace.from_arrays({"submit_time": [0, 0, 1], "run_time": [9, 9, 2], "req_time": [10, 10, 3],
    ...                          "req_procs": [2, 2, 2], "partition_id": ["a", "b", "a"]})
    >>> simulate_split(log, {"a": (2.0, "header"), "b": (2.0, "header")}).start_time.tolist()
    [0.0, 0.0, 9.0]
    """
    given = (policy or Policy()).predictor if predictor is None else predictor
    partition = trace.nominal("partition_id")
    if not sizes:
        raise InputError(f"{trace.info.source}: no job has a partition", hint="--partitions together")
    known = trace.req_time[np.isfinite(trace.req_time) & (trace.req_time > 0)]
    if setup.default_request is None and len(known):
        setup = replace(setup, default_request=float(known.max()))
    parts, rows, notes = [], [], []
    left_out = Counter({"no partition": int((partition.codes < 0).sum())})
    for name, (size, source) in sizes.items():
        inside = np.flatnonzero(partition.codes == partition.categories.index(name))
        if not size >= 1:
            left_out["in a partition of which no job is known to run"] += len(inside)
            continue
        jobs = trace.take(inside)
        plans = construct(given, trace=jobs, max_procs=size) if makes(given) else fresh(given)
        try:
            part = run_on_pool(jobs, policy, plans, replace(setup, total=size), clock=clock, tick=tick)
        except NoAnswer:
            left_out["in a partition without a job that can be simulated"] += len(inside)
            continue
        rows.append(inside[part.rows])
        parts.append(part)
        left_out.update(part.left_out)
        notes += [f"partition {name}: {size:,.0f} processors ({source})"]
        notes += [f"partition {name}: {note}" for note in part.notes]
    if not parts:
        raise InputError(f"{trace.info.source}: no partition's size is known", hint="--partitions together")
    oversized = _oversized(sum(part.total for part in parts), trace.info.max_procs)
    return _merged(parts, np.concatenate(rows), dict(left_out), (*oversized, *notes))


def _oversized(together: float, machine: float) -> list[str]:
    """Return a note if the partitions have more processors than the machine, because they overlap or replaced each
    other."""
    if not together > machine:
        return []
    return [
        f"the partitions have {together:,.0f} processors together, the machine {machine:,.0f}: they overlap or "
        f"replaced each other, so this simulation has {together / machine - 1:.0%} too many "
        "(--partitions together avoids this)"
    ]


def _merged(parts: list[Schedule], rows: np.ndarray, left_out: Mapping[str, int], notes: tuple[str, ...]) -> Schedule:
    """Merge the schedules of all machines into one, in log order."""
    order = np.argsort(rows, kind="stable")
    columns = {field.name: [getattr(part, field.name) for part in parts] for field in fields(Schedule)}
    merged: dict[str, Any] = {name: sum(columns[name]) for name in ("total", "corrections", "kernel_s")}
    for name, values in columns.items():
        if isinstance(values[0], np.ndarray):
            merged[name] = np.concatenate(values)[order]
    return Schedule(**{**merged, "rows": rows[order], "left_out": left_out, "notes": notes})
