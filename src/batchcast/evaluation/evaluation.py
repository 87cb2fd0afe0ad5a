# SPDX-License-Identifier: Apache-2.0
"""Evaluate a log: errors of time limits and predictions, and how much sooner jobs would start."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from time import perf_counter
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .. import plots
from ..errors import BatchcastError, InputError, NoAnswer, UsageError, check_word, says_arguments
from ..events.machine_size import machine_of_log
from ..events.recorded import irregular
from ..events.setup import RunSetup
from ..machines.machine import Machine
from ..metrics.paired import PairedDifference
from ..predict.protocol import spec_words
from ..predict.registry import fresh, named_methods
from ..processes import Task, in_processes, under_bars
from ..simulation import Schedule
from ..simulation.models import ORACLE, SLURM, YARDSTICK, Model, Nodes, Pool, Tick, policies_on_nodes
from ..simulation.policies import named_policies
from ..table import Trace, check_log
from ..table.result import Picture, Result, by_column
from ..units import counted
from .accuracy import Maker, Scores, error_pictures, figures, fresh_predictor, score
from .advice import Advice, advise
from .differences import Comparisons, ResultRow, over_log, schedule_differences, wait_intervals
from .findings import Findings, ScheduleRow, find, optimism, share_of_perfect_knowledge
from .limits import Limits, latest_limits, limit_rows
from .replay import jobs_mask
from .validity import DOUBTS, MODELLED_ON_NODES, STATED, Recorded, Validity, Verdict, judge
from .wait import HISTORY, JUDGED, WaitAccuracy, judge_waits
from .waste import waste_rows

PREDICTORS = ("kernel", "last_2", "recent_mean")
POLICIES = ("easy", "easy-sjbf", "forecast")
LEARN_LEAST, LEARN_JOBS = 1000, 60_000
"""A longer log needs `learn=True` to be learned from, because that takes more than a minute."""
Progress = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]


@dataclass(frozen=True, repr=False)
class Evaluation(Result):
    """All results of an evaluation. `outcomes` is empty and `validity` is None if `why_not` gives a reason.

    `rejected` is the validity of the machine model that was tried and not used. `waits` describes how well waits were
    predicted at submission; if it is None, `why_no_waits` gives the reason. `learned` describes the machine that was
    learned from the log, empty if another machine was used; `tried_learning` says whether learning was tried.
    """

    trace: Trace
    mask: np.ndarray
    procs: str
    scores: Scores
    outcomes: Sequence[ScheduleRow]
    validity: Validity | None
    why_not: str
    notes: Sequence[str]
    advice: Advice | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    limits: Limits | None = None
    rejected: Validity | None = None
    waits: WaitAccuracy | None = None
    learned: str = ""
    tried_learning: bool = False
    why_no_waits: str = "waits were not scored"
    _rows: dict[str, list[Any]] = field(default_factory=dict, init=False, compare=False)

    _printed: ClassVar[tuple[str, ...]] = ("policy", "predictor", "jobs", "mae_s", "mae_s_difference", "apa",
                                           "mean_wait_s", "mean_wait_s_difference", "max_wait_s")  # fmt: skip

    def __repr__(self) -> str:
        schedules = ", ".join(dict.fromkeys(o.policy for o in self.outcomes)) or "nothing simulated"
        return f"<Evaluation of {len(self.trace)} jobs: {', '.join(self.scores.rows)}; {schedules}>"

    def accuracy_rows(self) -> list[ResultRow]:
        """Return one row of error measures per predictor."""
        return self._once("accuracy", lambda: figures(self.scores))

    def schedule_rows(self) -> list[ResultRow]:
        """Return one row per policy and predictor, as in JSON; `outcomes` has the same results with their schedules."""
        return [row.row() for row in self.outcomes]

    def limit_rows(self) -> list[ResultRow]:
        """Return one row per rule that sets time limits: suggestion, rule of thumb, the users' own limits."""
        return self._once("limits", lambda: limit_rows(self.limits) if self.limits else [])

    def waste_rows(self) -> list[dict[str, Any]]:
        """Return flat rows of core-hours used, requested and unused: total, then by group."""
        return self._once("waste", lambda: waste_rows(self.trace, self.mask, procs=self.procs))

    def _once(self, name: str, make: Callable[[], list[Any]]) -> list[Any]:
        """Return rows that are computed at the first call, because every section of a report needs the rows, and their
        intervals take long."""
        if name not in self._rows:
            self._rows[name] = make()
        return list(self._rows[name])

    @cached_property  # because every section of a report needs this result, and computing its intervals takes long
    def findings(self) -> Findings | None:
        """The conclusions from the schedules; None if nothing was simulated."""
        verdict = Verdict.UNCHECKED if self.validity is None else self.validity.verdict
        error_s = math.nan if self.validity is None else self.validity.error_s
        return find(self.outcomes, verdict, self._difference, self._optimism, error_s)

    def _difference(self, row: ScheduleRow, other: ScheduleRow) -> PairedDifference | None:
        """Return the difference in mean wait between two rows of `outcomes`."""
        pair = {one.name: one.schedule for one in (row, other)}
        seed = int(self.settings.get("seed", 0))
        return wait_intervals(self.trace, pair, self.mask, other.name, procs=self.procs, seed=seed)[row.name]

    def _optimism(self, rows: Sequence[ScheduleRow]) -> float:
        """Return by how much the shortest mean wait of the given rows is too short because it was selected as the
        shortest."""
        waits = {o.name: over_log(self.trace, o.schedule, o.schedule.wait_time)[self.mask] for o in self.outcomes}
        today = waits[self.outcomes[0].name]
        return optimism({row.name: waits[row.name] - today for row in rows}, self.trace.submit_time[self.mask])

    def results(self) -> list[dict[str, Any]]:
        """Return every row for JSON: forecasts, schedules, validity. The key `part` says of which kind a row is."""

        def with_part(part: str, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
            return [{"part": part, **row} for row in rows]

        found = self.findings
        rows = [*with_part("forecast", self.accuracy_rows()), *with_part("schedule", self.schedule_rows())]
        rows += [one.row() for one in (*found.steps, found.gain) if one] if found else []
        rows += [*with_part("limits", self.limit_rows()), *with_part("waste", self.waste_rows())]
        return rows + [one.row() for one in (self.validity, self.waits, self.advice) if one]

    def columns(self) -> dict[str, Any]:
        """Return `results()` as columns."""
        return by_column(self.results())

    def _tables(self) -> Mapping[str, Mapping[str, Any]]:
        found = {"forecasts of run time": by_column(self.accuracy_rows())}
        return found | ({"schedules": by_column(self.schedule_rows())} if self.outcomes else {})

    def _pictures(self) -> Mapping[str, Picture]:
        schedules = {o.name: o.schedule for o in self.outcomes}
        pictures: dict[str, Picture] = {
            "differences": partial(plots.differences, self.schedule_rows()),
            "waits": partial(plots.waits, schedules, self.trace),
            "frontier": partial(plots.frontier, schedules),
        }
        return (pictures if schedules else {}) | error_pictures(self.scores)

    def warnings(self) -> list[str]:
        """Return notes that a reader of the results must know: irregular records, jobs left out, doubtful gains."""
        odd, never_ran = irregular(self.trace), self.scores.never_ran
        warnings = [f"recorded clock: {counted(count)} {rule}" for rule, count in odd.items() if count]
        warnings += [f"{counted(never_ran)} never ran, not scored"] if never_ran else []
        warnings += self.notes
        if self.why_not:
            warnings.append(self.why_not)
        elif self.validity is not None and not self.validity.trusted:
            warnings.append(DOUBTS[self.validity.verdict])
        return warnings


@says_arguments
def evaluate(
    trace: Trace,
    predictor: Any = PREDICTORS,
    *,
    policy: Any = None,
    mask: np.ndarray | None = None,
    procs: str = "req",
    protocol: str = "honest",
    loop: str = "closed",
    wide: str = "drop",
    default_request: float | None = None,
    plan_level: float | None = None,
    partitions: str = "together",
    scheduler: str = "auto",
    machine: Machine | None = None,
    known_at_submit: Sequence[str] = (),
    against: str | None = None,
    seed: int = 0,
    workers: int = 1,
    learn: bool = False,
    waits: bool = False,
    progress: Progress | None = None,
) -> Evaluation:
    """Replay a log through every predictor, then simulate every policy with every predictor.

    Parameters
    ----------
    trace
        The log; `trace.info.max_procs` is the number of processors of the machine.
    predictor
        A name with parameters, a comma-separated list of names, a class, an object, or a function that creates a
        predictor from a trace; or a sequence of these, or a mapping from names to them (None: the registered predictor
        of that name). Each run uses a new predictor; objects are copied. The baseline `requested` and the oracle
        `actual` are always added; `actual` is used only in simulations.
    policy
        Policy names with options, a user's own scheduler (`Scheduler`), a sequence of these, or a mapping from names to
        these or to a `Policy` (None: the registered policy of that name). Default: `POLICIES` on a pool of processors;
        on a machine with nodes `slurm` and `slurm-least-work`, which are the only accepted ones there.
    mask
        Which jobs are scored, booleans of shape (n,); predictors learn from all jobs, and all jobs are scheduled.
    procs
        Which processor count of a job is used: `req` (requested, else allocated) or `alloc`.
    protocol, loop
        `protocol`: the order of events in replays, `honest` or `paper`. `loop`: whether a planning predictor learns at
        the simulated ends (`closed`) or from the recorded log (`open`).
    wide
        How to treat jobs that request more processors than the machine has: `drop`, `widen` or `cut`.
    default_request
        Time limit in seconds that is assumed for jobs without a limit; by default the log's largest limit.
    plan_level
        Level of the quantile with which the scheduler plans; by default it plans with the point prediction.
    partitions
        `together`: all partitions form one machine; `split`: each partition is a machine of its own.
    scheduler, machine
        `policy`: simulate a pool of processors under each `policy`. `slurm`: simulate Slurm's main and backfill loops
        on `machine`, by default on a machine as large as the log's peak use of each partition; predictors then learn
        from the recorded log. `auto`: use `slurm` if `machine` is given, and the pool if `policy` is given; else the
        pool if it reproduces the recorded waits, else Slurm's loops if they do (`choose_model`).
    known_at_submit
        Further columns of the log that predictors may use (`Trace.knowing`).
    against
        The reference method for predictions, by default `recent_mean`; schedules are compared with the first policy
        that plans with time limits.
    seed
        Random seed of methods and of confidence intervals.
    workers
        Number of parallel processes; only the measured times `seconds` and `kernel_s` depend on it.
    learn
        If no model reproduces the recorded waits, learn the machine from the log's first part and evaluate the second
        part; only for logs of at most `LEARN_JOBS` jobs. Needs `scheduler` `auto`.
    waits
        Also measure how well waits are predicted, on the latest jobs (`evaluation.wait`).
    progress
        Function that shows the progress of each step.

    Returns
    -------
    Evaluation
        Results as rows and sentences; if nothing can be simulated, `why_not` gives the reason. Its page:
        `batchcast.write_report`.

    Raises
    ------
    UsageError
        If an argument is wrong; the message has the argument, its value and the accepted values.

    Examples
    --------
    >>> from batchcast.trace.source import demo_path
    >>> from batchcast.trace.read import read_trace
    >>> from batchcast.simulation import Policy
    >>> log = read_trace(demo_path())
    >>> found = evaluate(log, predictor="last_2", policy={"sjf": Policy(order="sjf")})
    >>> [row["predictor"] for row in found.accuracy_rows()], [row["predictor"] for row in found.schedule_rows()]
    (['requested', 'last_2'], ['requested', 'last_2', 'actual'])
    """
    setup = RunSetup(procs, protocol, loop, wide, default_request, plan_level)
    check_word("partitions", partitions, ("together", "split"))
    check_word("scheduler", scheduler, ("auto", "policy", SLURM))
    settings = {
        **setup.shared(), "partitions": partitions, "scheduler": scheduler, "known_at_submit": list(known_at_submit),
        "against": against, "seed": seed,
    }  # fmt: skip
    check_log(trace)
    trace = trace.knowing(known_at_submit)
    methods = _beside_yardstick(named_methods(predictor))
    loops = machine is not None or scheduler == SLURM
    if loops:
        _refuse_settings_of_a_pool(setup, partitions, scheduler if machine is not None else "")
        plans: dict[str, Any] = policies_on_nodes(policy)
    else:
        plans = named_policies(POLICIES if policy is None else policy)
    inside = jobs_mask("mask", mask, trace)
    record = Recorded.of(trace, inside, procs)
    bar = progress or silent
    split = partitions == "split"
    pool = Pool(setup, split) if split or trace.info.max_procs > 0 else None

    def nodes() -> Nodes:
        return Nodes(machine if machine is not None else machine_of_log(trace, procs), setup)

    learned, tries = "", False
    if loops:
        model = Chosen(nodes(), None, None)
    else:
        with bar("Simulating the present scheduler, to compare with the record", len(trace)) as tick:
            kill = any(each.kill for each in plans.values())
            auto = scheduler == "auto" and not split and policy is None
            model = choose_model(record, pool, nodes if auto else None, kill, tick)
        tries = learn and auto and LEARN_LEAST <= len(trace) <= LEARN_JOBS and not model.is_stated
        if tries:
            with bar("Learning the machine from the log's first part", len(trace)) as tick:
                found = learn_model(record, setup, tick)
            if found is not None:
                model, record, learned = found
                trace, inside = record.trace, record.inside

    def predict(tick: Callable[[int], None]) -> tuple[Scores, Limits | None]:
        # The suggested limits calibrate the predictions of `kernel`, so the log is not replayed once more for them.
        kernel = "kernel" if protocol == "honest" and methods.get("kernel") == "kernel" else ""
        scores = score(trace, methods, setup, mask=inside, seed=seed, unmasked_of=kernel, tick=tick)
        limits = latest_limits(trace, inside, procs=procs, answers=scores.unmasked) if protocol == "honest" else None
        return replace(scores, unmasked=None), limits

    tasks: list[Task[Any]] = [Task("Predicting run times, advising limits", len(trace), predict)]
    if waits:
        tasks.append(Task("Predicting waits", HISTORY + JUDGED, lambda tick: judge_waits(
            trace, inside, procs=procs, tick=tick)))  # fmt: skip
    (scores, limits), *judged = under_bars("Predicting run times and waits, advising limits", tasks, workers, bar)
    scores = scores.held_against(against)
    waited = judged[0] if judged else "waits were not scored"
    advice = advise(trace, scores.points, scores.scored, procs=procs, seed=seed) if protocol == "honest" else None
    forecasts = Evaluation(trace, inside, procs, scores, (), None, "", (), advice, settings, limits=limits,
                           waits=None if isinstance(waited, str) else waited, learned=learned, tried_learning=tries,
                           why_no_waits=waited if isinstance(waited, str) else "")  # fmt: skip
    planners = {spec: planner_of(spec, methods, seed) for spec in (*methods, ORACLE)}
    if not loops and isinstance(model.model, Nodes):
        plans = policies_on_nodes()
    return _with_schedules(forecasts, plans, planners, model, record, workers, bar)


def _refuse_settings_of_a_pool(setup: RunSetup, partitions: str, scheduler: str) -> None:
    """Raise UsageError if a setting that only a pool of processors uses is combined with a machine with nodes."""
    wrong = setup.of_a_pool() | ({"partitions": partitions} if partitions == "split" else {})
    wrong |= {"scheduler": scheduler} if scheduler == "policy" else {}
    for name, value in wrong.items():
        raise UsageError(f"{name}: a machine with nodes does not use {value!r}",
                         hint=f"leave {name} out, or simulate a pool of processors without a machine")  # fmt: skip


def _beside_yardstick(methods: Mapping[str, Any]) -> dict[str, Any]:
    """Return the methods with `requested` as the first method; UsageError if a method of the caller has the name of a
    built-in one."""
    for name in (YARDSTICK, ORACLE):
        if name in methods and not (isinstance(methods[name], str) and methods[name] == name):
            raise UsageError(f"predictor: {name} is the name of a method of batchcast (accepted: any other name)")
    return {YARDSTICK: YARDSTICK} | {name: one for name, one in methods.items() if name not in (YARDSTICK, ORACLE)}


def _with_schedules(
    forecasts: Evaluation, plans: Mapping[str, Any], planners: Mapping[str, Any], model: Chosen, record: Recorded,
    workers: int, bar: Progress,
) -> Evaluation:  # fmt: skip
    """Return the evaluation of predictions with every policy's schedules, or with the reason why there are no
    schedules."""
    if model.model is None:
        return replace(forecasts, why_not=model.why_not or NO_MACHINE, rejected=model.rejected)
    trace, inside, loops = forecasts.trace, forecasts.mask, isinstance(model.model, Nodes)
    try:
        outcomes = simulate_all(trace, model.model, plans, planners, inside, workers, bar)
    except (InputError, NoAnswer) as error:  # no job has a limit or a size: report only the predictions
        return replace(forecasts, why_not=not_simulated(error))
    as_today = outcomes[0].schedule if outcomes[0].policy == SLURM else None
    checked = model.checked or judge(model.model, record, as_today)
    _ = forecasts.scores.differences  # computed before processes are forked, which inherit the samples
    settings = {**forecasts.settings, "scheduler": SLURM if loops else "policy"}
    differences = _outcome_differences(trace, outcomes, inside, forecasts.procs, settings["seed"], workers)
    wait = {each.name: each.mean_wait_s for each in outcomes}
    for place, each in enumerate(outcomes):
        requests, actual = (wait[f"{each.policy}, {name}"] for name in (YARDSTICK, ORACLE))
        share = share_of_perfect_knowledge(requests, each.mean_wait_s, actual)
        outcomes[place] = replace(each, share_of_perfect=share, comparison=differences.get(each.name))
    return replace(forecasts, outcomes=outcomes, validity=checked, notes=outcomes[0].schedule.remarks,
                   rejected=model.rejected, settings=settings)  # fmt: skip


def _outcome_differences(
    trace: Trace, outcomes: Sequence[ScheduleRow], inside: np.ndarray, procs: str, seed: int, workers: int
) -> Comparisons:
    """Return the comparison of each schedule with the first policy that plans with the users' limits, and with its own
    policy planned with the limits (`limit_differences`)."""
    reference = next((o for o in outcomes if o.predictor == YARDSTICK), outcomes[0])
    options: dict[str, Any] = {"procs": procs, "seed": seed}
    of_policies: dict[str, dict[str, Schedule]] = {}
    for each in outcomes:
        of_policies.setdefault(each.policy, {})[each.name] = each.schedule
    tasks: list[Callable[[], Any]] = [
        partial(schedule_differences, trace, {o.name: o.schedule for o in outcomes}, inside, reference.name, **options)
    ]
    if len(of_policies) > 1:  # else the reference is the only policy planned with the limits
        tasks += [partial(wait_intervals, trace, mine, inside, f"{policy}, {YARDSTICK}", **options)
                  for policy, mine in of_policies.items()]  # fmt: skip
    found, *own = in_processes(tasks, workers)
    limits = {name: {"mean_wait_s": pair.stated()} for pairs in own for name, pair in pairs.items()}
    if not own:
        limits = {name: one.differences for name, one in found.items()}
    return {name: replace(one, limit_differences=limits.get(name, {})) for name, one in found.items()}


NO_MACHINE = (
    "Nothing was simulated: the log does not say how many processors the machine has. "
    "Set the number with --procs-total N (or --procs-total peak: the most processors in use at once)."
)


def silent(label: str, total: int | None) -> AbstractContextManager[Callable[[int], None]]:
    """Return a context that shows no progress bar."""
    return nullcontext(lambda done: None)


def planner_of(spec: str, makers: Mapping[str, Maker], seed: int) -> Any:
    """Return the argument from which `Model.run` makes a new predictor: a name for limits and run times, else a
    function."""
    if spec in (YARDSTICK, ORACLE):
        return spec

    def make(trace: Trace, max_procs: float) -> Any:
        return fresh_predictor(fresh(makers[spec]), trace, max_procs, seed, name=spec)

    make.__name__ = spec  # this name appears in notes about the predictor
    return make


class Chosen(NamedTuple):
    """The machine model that is used, its validity, and the validity of the model that is not used."""

    model: Model | None
    checked: Validity | None
    rejected: Validity | None
    why_not: str = ""

    @property
    def is_stated(self) -> bool:
        """Whether gains may be stated: the model reproduces the recorded waits closely or roughly."""
        return self.checked is not None and self.checked.verdict in STATED


def choose_model(
    record: Recorded, pool: Pool | None, nodes: Callable[[], Nodes] | None, kill: bool, tick: Tick
) -> Chosen:
    """Return the machine model that reproduces the recorded waits: the pool of processors, else Slurm's loops.

    Slurm's loops on the machine that the log implies (None: never) are tried if the pool is not close to the recorded
    waits and the log has properties that only the loops model (nodes, partitions, memory, GPUs, QOS), or if the size of
    a pool is unknown. If neither model is close, a rough model is preferred to a model that does not reproduce the
    record. If both are equally close, the pool is preferred, because it is simpler. If neither model can be simulated,
    `Chosen.model` is None.
    """
    try:
        checked = None if pool is None else judge(pool, record, kill=kill)
    except (InputError, NoAnswer) as error:
        return Chosen(None, None, None, not_simulated(error))
    enough = checked is not None and (checked.verdict in (Verdict.CLOSE, Verdict.UNCHECKED) or not _has_more(checked))
    if nodes is None or enough:
        return Chosen(pool, checked, None)
    try:
        loops = nodes()
        other = judge(loops, record, loops.run(record.trace, None, YARDSTICK, tick=tick))
    except (InputError, NoAnswer):
        return Chosen(pool, checked, None)
    better = other.verdict is Verdict.CLOSE or (other.verdict is Verdict.ROUGH and (
        checked is None or checked.verdict is Verdict.FAR))  # fmt: skip
    return Chosen(loops, other, checked) if better else Chosen(pool, checked, other)


def learn_model(record: Recorded, setup: RunSetup, tick: Tick) -> tuple[Chosen, Recorded, str] | None:
    """Return the machine learned from the log's first part, if it reproduces the waits of the second part.

    Returns the model, the record of the jobs after the first part in the log with the release times of jobs on hold,
    and a sentence about what was learned. Returns None if the log has too little data, or if the learned machine does
    not reproduce the second part.
    """
    # imported here because the module loads many kernels that most logs do not need
    from ..simulation.learned.learn import split

    try:
        learned, released, rest = split(record.trace, setup.procs)
        model, latest = Nodes(learned.machine, setup), Recorded.of(released, record.inside & rest, setup.procs)
        checked = judge(model, latest, model.run(released, None, YARDSTICK, tick=tick))
    except (InputError, NoAnswer):
        return None
    if checked.verdict not in STATED:
        return None
    return Chosen(model, checked, None), latest, learned.in_short()


def simulate_all(
    trace: Trace, model: Model, policies: Mapping[str, Any], planners: Mapping[str, Any], inside: np.ndarray,
    workers: int, bar: Any,
) -> list[ScheduleRow]:  # fmt: skip
    """Return the row of every policy with every predictor, measured over the jobs in `inside` (n,); each simulation has
    its own copy of the predictor."""
    pairs = list(product(policies, planners))

    def run(name: str, spec: str, tick: Tick) -> Schedule:
        return model.run(trace, policies[name], planners[spec], clock=perf_counter, tick=tick)

    tasks = [
        Task(f"Simulating {name}, planned with {spec_words(spec)}", len(trace), partial(run, name, spec))
        for name, spec in pairs
    ]
    return [
        ScheduleRow(*pair, {**made.measures(inside[made.rows]), "kernel_s": made.kernel_s}, made)
        for pair, made in zip(pairs, under_bars(f"Simulating {len(pairs)} schedules", tasks, workers, bar))
    ]


def _has_more(checked: Validity) -> bool:
    """Whether the log's jobs have properties that a model with nodes uses and a pool of processors ignores."""
    return any(checked.uncovered.get(name, 0) for name in MODELLED_ON_NODES if name != "holds")


def not_simulated(error: BatchcastError) -> str:
    """Return a sentence on why nothing was simulated."""
    return f"Nothing was simulated: {error.message} ({error.hint})."
