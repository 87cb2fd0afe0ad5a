"""The main job: how wrong are limits, how good are forecasts, how much sooner would jobs start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields
from time import perf_counter
from typing import Any

import numpy as np

from ..errors import InputError, UsageError
from ..events.recorded import irregular
from ..predict.registry import parse_spec
from ..simulate import Policy, Schedule, simulate
from ..table import Trace
from ..units import parse_duration
from .accuracy import Maker, Scores, calm_collector, figures, predictor, score
from .validity import Validity, validity

PREDICTORS = ("last_2", "recent_mean")
POLICIES = ("easy", "easy-sjbf")
YARDSTICK, ORACLE = "requested", "actual"
NAMED = {
    "fcfs": Policy(backfill="none"),
    "easy": Policy(),
    "easy-sjbf": Policy(backfill_order="sjf"),
    "conservative": Policy(backfill="conservative"),
}
Progress = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One policy planned with one predictor: its schedule, and its measures over the scored jobs."""

    policy: str
    predictor: str
    schedule: Schedule
    measures: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Everything an evaluation found. `outcomes` is empty and `validity` None when `why_not` says why."""

    trace: Trace
    mask: np.ndarray
    procs: str
    scores: Scores
    outcomes: Sequence[Outcome]
    validity: Validity | None
    why_not: str
    notes: Sequence[str]

    def accuracy_rows(self) -> list[dict[str, Any]]:
        """One flat row per predictor."""
        return figures(self.scores)

    def schedule_rows(self) -> list[dict[str, Any]]:
        """One flat row per policy and predictor; `share_of_perfect` as `share_of_perfect_knowledge` defines it."""
        waits = {(o.policy, o.predictor): o.measures["mean_wait_s"] for o in self.outcomes}
        rows = []
        for o in self.outcomes:
            requests, actual = waits[o.policy, YARDSTICK], waits[o.policy, ORACLE]
            rows.append(
                {
                    "policy": o.policy,
                    "predictor": o.predictor,
                    **o.measures,
                    "share_of_perfect": share_of_perfect_knowledge(requests, o.measures["mean_wait_s"], actual),
                }
            )
        return rows

    def results(self) -> list[dict[str, Any]]:
        """Every row for JSON: forecasts, schedules, validity; `part` tells them apart."""
        rows = [{"part": "forecast", **row} for row in self.accuracy_rows()]
        rows += [{"part": "schedule", **row} for row in self.schedule_rows()]
        return rows + ([self.validity.row()] if self.validity else [])

    def warnings(self) -> list[str]:
        """What a reader of the numbers must know: irregular records, jobs left aside, gains in doubt."""
        told = [f"recorded clock: {_jobs(count)} {rule}" for rule, count in irregular(self.trace).items() if count]
        if self.scores.never_ran:
            told.append(f"{_jobs(self.scores.never_ran)} never ran, not scored")
        told += self.notes
        if self.why_not:
            told.append(self.why_not)
        elif self.validity is not None and not self.validity.trusted:
            told.append(DOUBT if self.validity.jobs else UNCHECKED)
        return told


def share_of_perfect_knowledge(requests: float, it: float, actual: float) -> float:
    """(requests - it) / (requests - actual) of mean waits, not clipped; NaN where knowing the truth gains nothing.

    >>> share_of_perfect_knowledge(100.0, 60.0, 20.0), share_of_perfect_knowledge(100.0, 120.0, 60.0)
    (0.5, -0.5)
    """
    gain = requests - actual
    return (requests - it) / gain if gain > 0 else float("nan")


def evaluate(
    trace: Trace,
    *,
    predictors: Sequence[str] | Mapping[str, Maker | None] = PREDICTORS,
    policies: Sequence[str] | Mapping[str, Policy | None] = POLICIES,
    mask: np.ndarray | None = None,
    procs: str = "req",
    protocol: str = "honest",
    loop: str = "closed",
    wide: str = "drop",
    default_request: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Run a trace on the recorded clock, then every policy with every predictor on the simulated one.

    `requested` and `actual` always run beside `predictors`: they are the yardstick and the oracle (which is simulated
    only). Methods of one's own come in a mapping of names: `predictors` to a function that makes a fresh predictor for
    a trace, `policies` to a `Policy`, and either to None for the one known by that name. `mask` (n,) says which jobs
    are scored; everything is learned from and scheduled. The machine is the one of `trace.info.max_procs`; where it (or
    every request) is unknown nothing is simulated and `why_not` says so.
    `protocol` concerns the recorded clock and, with `loop="open"`, what the planning predictor had learned.

    >>> from batchcast.trace.demo import demo_path
    >>> from batchcast.trace.read import read_trace
    >>> log = read_trace(demo_path())
    >>> found = evaluate(log, predictors=["last_2"], policies={"sjf": Policy(order="sjf")})
    >>> [row["predictor"] for row in found.accuracy_rows()], [row["predictor"] for row in found.schedule_rows()]
    (['requested', 'last_2'], ['requested', 'last_2', 'actual'])
    """
    makers = {name: make for name, make in predictors.items() if make} if isinstance(predictors, Mapping) else {}
    inside = np.ones(len(trace), bool) if mask is None else np.asarray(mask, bool)
    chosen = [YARDSTICK, *(p for p in dict.fromkeys(predictors) if p not in (YARDSTICK, ORACLE))]
    own = policies if isinstance(policies, Mapping) else {}
    plans = {name: own.get(name) or policy_of(name) for name in policies}
    bar = progress or silent
    total = trace.info.max_procs
    told: dict[str, Any] = {
        "protocol": protocol,
        "procs": procs,
        "total": total,
        "mask": inside,
        "seed": seed,
        "makers": makers,
    }
    with bar("recorded clock: predicting run times", len(trace)) as tick:
        scores = score(trace, chosen, tick=tick, **told)
    if not total > 0:
        return Evaluation(trace, inside, procs, scores, (), None, NO_MACHINE, ())

    def run(policy: Policy, spec: str, tick: Callable[[int], None] | None) -> Schedule:
        native = spec in (YARDSTICK, ORACLE)
        with calm_collector():
            return simulate(
                trace,
                policy,
                spec if native else predictor(spec, trace, total, seed, makers),
                procs=procs,
                wide=wide,
                default_request=default_request,
                loop=loop,
                protocol=protocol,
                clock=perf_counter,
                tick=tick,
            )

    outcomes = []
    try:
        for name, policy in plans.items():
            for spec in (*chosen, ORACLE):
                with bar(f"simulated clock: {name}, {spec}", len(trace)) as tick:
                    outcomes.append(_outcome(name, spec, run(policy, spec, tick), inside))
    except InputError as error:  # no job has a request: what is known of forecasts is still worth a report
        why_not = f"Nothing was simulated: {error.message} ({error.hint})."
        return Evaluation(trace, inside, procs, scores, (), None, why_not, ())
    plain = next((o.schedule for o in outcomes if plans[o.policy] == Policy() and o.predictor == YARDSTICK), None)
    if plain is None:
        plain = run(Policy(), YARDSTICK, None)
    return Evaluation(trace, inside, procs, scores, outcomes, validity(trace, plain, inside), "", _notes(plain))


NO_MACHINE = (
    "Nothing was simulated: the log does not say how many processors the machine has. "
    "Give it with --procs-total N (or --procs-total peak for the most the log ever shows in use)."
)


DOUBT = "recorded and simulated mean waits differ by more than 2x: the simulated gains are not to be trusted"
UNCHECKED = "the log records no waits to check the simulation by: the simulated gains are not to be trusted"


def policy_of(text: str) -> Policy:
    """A policy from its name, with the words of `simulate` as parameters: `easy-sjbf:correct=incremental`.

    >>> policy_of("easy:correct=doubling").correct
    'doubling'
    """
    name, parameters = parse_spec(text)
    if name not in NAMED:
        raise UsageError(f"no policy {name!r} (accepted: {', '.join(NAMED)}, with parameters as NAME:key=value)")
    words = [f.name for f in fields(Policy) if f.name != "kill"]
    unknown = [key for key in parameters if key not in words]
    if unknown:
        raise UsageError(f"a policy has no parameter {unknown[0]!r} (accepted: {', '.join(words)})")
    base = NAMED[name]
    given: dict[str, Any] = {word: parameters.get(word, getattr(base, word)) for word in words}
    if "head_after" in parameters:
        given["head_after"] = parse_duration(parameters["head_after"])
    return Policy(**given)


def _outcome(policy: str, spec: str, schedule: Schedule, inside: np.ndarray) -> Outcome:
    measured = schedule.measures(inside[schedule.rows])
    return Outcome(policy, spec, schedule, {**measured, "kernel_s": schedule.kernel_s})


def _notes(schedule: Schedule) -> list[str]:
    left = [f"{_jobs(count)} not simulated ({reason})" for reason, count in schedule.left_out.items() if count]
    return [*left, *schedule.notes]


def _jobs(count: int) -> str:
    return f"{count:,} job{'' if count == 1 else 's'}"


@contextmanager
def silent(label: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Progress for nobody."""
    yield lambda done: None
