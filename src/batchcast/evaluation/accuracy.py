# SPDX-License-Identifier: Apache-2.0
"""Replays a log through run-time predictors and scores their predictions.

All predictors share one replay. The module also computes error measures by group of jobs, and the errors of a scheduler
that plans with a quantile of the prediction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from .. import plots
from ..errors import NoAnswer, UsageError
from ..events.recorded import Forecasts
from ..events.setup import RunSetup
from ..metrics.accuracy import APA, MAE, SIZE_CLASSES, Errors, accuracy, size_class
from ..metrics.coverage import RESOLUTION
from ..metrics.measure import Measure, coverage_by_level
from ..predict.batched import Timed, replay
from ..predict.gate import lacking
from ..predict.peak_memory import MIB, PeakMemory
from ..predict.protocol import Grounds, Predictor
from ..predict.registry import fresh, method_of, parse_spec
from ..table import Trace
from ..table.memory import MemoryUse, memory_use
from ..table.result import Picture
from .calendar import month_starts
from .differences import RUN_TIME, Comparisons, ResultRow, burst_groups, compared, reference_of, shown_names

GROUPS = ("user", "queue", "size", "month")


Maker = Any  # a name, a class, an object or a function of the log that makes one: see predict/registry


@dataclass(frozen=True)
class ForecastRow:
    """The predictions of one method in a replay.

    `points` (n,) are its predictions, NaN for jobs that were not predicted. `seconds` is its computing time, without
    the time of the replay itself. `coverage`: the share of scored jobs that ran no longer than each predicted quantile,
    by level. `facts`: further keys of its row in tables, such as `lacking`, the fields that the method uses and the log
    lacks. `trained`: the results of its refits. `planned`: the errors of planning with each quantile (run times only).
    """

    points: np.ndarray
    seconds: float = 0.0
    coverage: Mapping[float, float] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    trained: Sequence[Mapping[str, Any]] = ()
    planned: Sequence[Planned] = ()


@dataclass(frozen=True)
class Scores:
    """Predictions of several methods for one log, and which jobs are scored.

    `rows` has a `ForecastRow` per method. `scored` (n,) marks the jobs inside the score mask that ran; `never_ran`
    counts the jobs inside the mask that did not run. `against` is the reference method of comparisons, if any; `seed`
    seeds the intervals; memory is in MiB per `per`. `unmasked` has one method's predictions of all jobs, if the caller
    of `score` requested them.
    """

    trace: Trace
    protocol: str
    procs: str
    rows: Mapping[str, ForecastRow]
    scored: np.ndarray
    never_ran: int
    against: str = ""
    seed: int = 0
    per: str = ""
    unmasked: Forecasts | None = None

    @property
    def points(self) -> dict[str, np.ndarray]:
        """The predictions (n,) of each method."""
        return {spec: row.points for spec, row in self.rows.items()}

    def held_against(self, method: str | None) -> Scores:
        """Return the same scores with another reference method; None keeps the present reference. Raises UsageError if
        the method was not evaluated."""
        return replace(self, against=reference_of(list(self.rows), method, RUN_TIME)) if method else self

    @cached_property  # because every table of a report needs the differences, and computing their intervals takes long
    def differences(self) -> Comparisons:
        """The differences between every method and the reference, and between every method and the users' limits."""
        return _differences(self) if self.against else {}


def score(
    trace: Trace,
    methods: Sequence[str] | Mapping[str, Maker],
    setup: RunSetup = RunSetup(),
    *,
    mask: np.ndarray | None = None,
    seed: int = 0,
    target: str = "run_time",
    unmasked_of: str = "",
    tick: Callable[[int], None] | None = None,
) -> Scores:
    """Replay a log once and collect every predictor's prediction at the submission of each scored job.

    `methods` are names with parameters (predict.registry), or a mapping from names to classes, objects or factories.
    The methods learn from the whole trace; `mask` (n,) says which jobs are scored (default: all). The methods are
    compared with `recent_mean`, else with `requested`, else with the first method (`Scores.held_against` sets another
    reference). Equal seeds give equal confidence intervals. `target` is `run_time` or `memory`: for `memory`, measures
    are in MiB, and `Scores.trace` has peak memory in place of run times. `unmasked_of` names the method whose
    predictions of all jobs, scored or not, are added as `Scores.unmasked`. `tick(done)` is called from time to time
    with the number of submissions so far.

    >>> trace = Trace.from_arrays({"submit_time": [0.0, 50.0], "wait_time": [0.0, 0.0], "run_time": [9.0, 9.0],
    ...     "req_time": [60.0, 60.0], "req_procs": [1, 1], "user_id": [1, 1]})
    >>> [row["mae_s"] for row in figures(score(trace, ["requested", "last_2"]))]
    [51.0, 25.5]
    """
    inside = np.ones(len(trace), bool) if mask is None else np.asarray(mask, bool)
    log, wanted = trace, memory_target(trace) if target == "memory" else run_time_target(trace)
    trace, ran = wanted.view, ~np.isnan(wanted.view.run_time)
    scored = inside & ran
    makers = methods if isinstance(methods, Mapping) else {spec: spec for spec in methods}
    total = log.info.max_procs
    fitted = {spec: fresh_predictor(fresh(maker), trace, total, seed, name=spec) for spec, maker in makers.items()}
    timed = {spec: Timed(wanted.wrap(method), perf_counter) for spec, method in fitted.items()}
    forecasts = replay(log, timed, protocol=setup.protocol, procs=setup.procs, total=total, ask=scored, tick=tick)
    requested = np.isfinite(trace.req_time) & (trace.req_time > 0)

    def row(spec: str, predicted: Forecasts) -> ForecastRow:
        method = timed[spec].inner
        return ForecastRow(
            # jobs without a time limit are not scored for `requested`, which predicts a fallback for them
            np.where(requested, predicted.points, np.nan) if _is_limit(spec) else predicted.points,
            timed[spec].seconds,
            coverage_by_level(wanted.within, predicted.levels, predicted.quantiles, 0.0 if wanted.per else RESOLUTION),
            _facts(method, predicted, log, scored),
            getattr(method, "trained", ()),
            () if wanted.per else planned_with(predicted, trace.run_time, scored),
        )

    return Scores(
        trace,
        setup.protocol,
        setup.procs,
        rows={spec: row(spec, each) for spec, each in forecasts.items()},
        scored=scored,
        never_ran=int((inside & ~ran).sum()),
        against=reference_of(list(makers), None, RUN_TIME),
        seed=seed,
        per=wanted.per,
        unmasked=timed[unmasked_of].answer if unmasked_of in timed else None,
    )


def error_pictures(scores: Scores) -> dict[str, Picture]:
    """Return the pictures of predictions: errors, coverage of the quantiles, and differences from the reference."""
    jobs, measures = scores.scored, measures_of(scores.per)
    errors = {spec: np.abs(points - scores.trace.run_time)[jobs] for spec, points in scores.points.items()}
    unit = f"MiB per {scores.per}" if scores.per else "s"
    rows = [{"predictor": spec, **one.row()} for spec, one in scores.differences.items()]
    held = {spec: row.coverage for spec, row in scores.rows.items() if row.coverage}
    return {
        "errors": partial(plots.shares, errors, f"absolute error ({unit})"),
        "coverage": partial(plots.coverage, held),
        "error_differences": partial(plots.differences, rows, measures[0].name, ("predictor",)),
    }


def measures_of(per: str) -> tuple[Measure, Measure]:
    """Return the two measures by which methods are compared: for run times, or for memory per `per` (node or
    processor)."""
    return (replace(MAE, name="mae_mib", unit="memory"), APA) if per else (MAE, APA)


def _differences(scores: Scores) -> Comparisons:
    measures, group = measures_of(scores.per), burst_groups(scores.trace, scores.procs)
    found = _compared(scores, scores.scored, scores.against, measures, group)
    limits = next((spec for spec in scores.rows if _is_limit(spec)), scores.against)
    if limits == scores.against:
        return found
    theirs = _compared(scores, scores.scored, limits, measures[:1], group)
    return {spec: replace(one, limit_differences=theirs[spec].differences) for spec, one in found.items()}


def _compared(
    scores: Scores, mask: np.ndarray, against: str, measures: Sequence[Measure], group: np.ndarray
) -> Comparisons:
    """Return each method's difference from the method `against` over the jobs in `mask` (n,)."""
    run = scores.trace.run_time[mask]
    errors = {spec: Errors(point[mask], run) for spec, point in scores.points.items()}
    values = {spec: {each.name: each.compute(error) for each in measures} for spec, error in errors.items()}
    return compared(scores.trace, mask, group[mask], values, against, measures, scores.seed)


def _is_limit(spec: str) -> bool:
    return parse_spec(spec)[0] == "requested"


def _facts(method: Any, forecast: Forecasts, log: Trace, scored: np.ndarray) -> dict[str, Any]:
    """Return, as keys of a method's row, the columns that it lacks, the method that replaced it and for which share of
    the scored jobs, and the number of submissions before its first training if it never trained in this replay."""
    missing = lacking(method, log)
    facts: dict[str, Any] = {"lacking": " ".join(missing)} if missing else {}
    stand_in = np.array([grounds == Grounds.FALLBACK for grounds in forecast.grounds], bool)
    if len(stand_in) and (stand_in & scored).any():
        who, share = getattr(method, "falls_back_to", "another method"), float(stand_in[scored].mean())
        facts |= {"answered_by": str(who), "answered_by_share": share}
    while not hasattr(method, "trains_from") and hasattr(method, "inner"):
        method = method.inner
    if getattr(method, "trains_from", 0) and not method.trained:
        facts["trains_from_jobs"] = method.trains_from
    return facts


def fresh_predictor(
    predictor: Any, trace: Trace, total: float, seed: int, *, kind: str = "runtime", name: str = ""
) -> Predictor:
    """Return a predictor for this log from a name, a class, a factory or an object. Only oracles, such as `actual`,
    receive the log's run times."""
    method: Predictor = method_of(
        kind, predictor, known_at_submit=trace.info.known_at_submit, predictor_name=name, trace=trace, max_procs=total,
        rng=np.random.default_rng(seed), seed=seed, answers=trace.run_time.tolist(),
    )  # fmt: skip
    return method


def figures(scores: Scores, by: str | None = None) -> list[ResultRow]:
    """Return one row per predictor (and per group: keys `by` and `group`, in the order of `groups`).

    `requested` has a row only if users requested a time limit.
    """
    specs = [spec for spec, row in scores.rows.items() if not (_is_limit(spec) and np.isnan(row.points).all())]
    if by is None:
        return [_row(scores, spec) for spec in specs]
    codes, names = groups(scores.trace, by, scores.procs)
    present = np.unique(codes[scores.scored]).tolist()
    masks = [(names[k] if k >= 0 else "unknown", scores.scored & (codes == k)) for k in present]
    measures, group = measures_of(scores.per), burst_groups(scores.trace, scores.procs)
    found = [_compared(scores, mask, scores.against, measures, group) for _, mask in masks]
    return [
        ResultRow(_measured(scores, spec, mask), mine.get(spec), {"by": by, "group": name})
        for spec in specs
        for (name, mask), mine in zip(masks, found)
    ]


def _row(scores: Scores, spec: str) -> ResultRow:
    """Return a method's row over all scored jobs, with the coverage of its quantiles and its computing time."""
    of = scores.rows[spec]
    trainings = len({refit.get("batch", k) for k, refit in enumerate(of.trained)})
    measures = {
        **_measured(scores, spec, scores.scored),
        **({"trainings": trainings} if trainings else {}),
        **{f"coverage_{100 * level:g}": share for level, share in of.coverage.items()},
        **planned_keys(of.planned),
        **of.facts,
    }
    return ResultRow(measures, scores.differences.get(spec), {"seconds": of.seconds})


def _measured(scores: Scores, spec: str, mask: np.ndarray) -> dict[str, Any]:
    """Return a method and its error measures over the jobs in `mask` (n,); in MiB, with the unit `per`, for memory."""
    row = {"predictor": spec, **accuracy(scores.rows[spec].points[mask], scores.trace.run_time[mask])}
    return in_mebibytes(row, scores.per) if scores.per else row


def groups(trace: Trace, by: str, procs: str = "req") -> tuple[np.ndarray, Sequence[str]]:
    """Return the group of each job as an index (n,) into the group names, -1 if unknown, and the names; months are in
    local time.

    >>> trace = Trace.from_arrays({"submit_time": [0.0, 1.0], "req_procs": [1, 8]})
    >>> codes, names = groups(trace, "size"); [names[k] for k in codes]
    ['1', '5-16']
    """
    if by == "size":
        return size_class(trace.procs(procs)), SIZE_CLASSES
    if by == "month":
        starts, names = month_starts(trace)
        return np.searchsorted(starts, trace.submit_time, side="right") - 1, names
    if by in ("user", "queue"):
        return trace.nominal(f"{by}_id").codes, shown_names(trace, f"{by}_id")
    raise UsageError(f"not a grouping: {by!r} (accepted: {', '.join(GROUPS)})")


LEAST, MOST = 0.3, 0.95


class Planned(NamedTuple):
    """Result of planning with one quantile of the prediction as run time: mean absolute error (s), and the share of
    jobs that ran longer than the quantile."""

    level: float
    mae_s: float
    underestimate_rate: float


def planned_with(forecasts: Forecasts, run_time: np.ndarray, scored: np.ndarray) -> tuple[Planned, ...]:
    """Return a `Planned` for each level from 0.3 to 0.95 of the method, over the jobs marked in `scored` (n,).

    >>> both = Forecasts(np.array([6.0, 9.0]), (0.5, 0.9), np.array([[5.0, 9.0], [np.nan, np.nan]]), ["", ""])
    >>> planned_with(both, np.array([7.0, 7.0]), np.ones(2, bool))
    (Planned(level=0.5, mae_s=2.0, underestimate_rate=0.5), Planned(level=0.9, mae_s=2.0, underestimate_rate=0.0))
    """
    found, points, ran = [], forecasts.points[scored], run_time[scored]
    for column, level in enumerate(forecasts.levels):
        if not LEAST <= level <= MOST:
            continue
        plan = forecasts.quantiles[:, column][scored]
        plan = np.where(np.isnan(plan), points, plan)
        known = ~np.isnan(plan)
        if known.any():
            plan, run = plan[known], ran[known]
            found.append(Planned(float(level), float(np.abs(plan - run).mean()), float((run > plan).mean())))
    return tuple(found)


def planned_keys(planned: Sequence[Planned]) -> dict[str, Any]:
    """Return the results of planning with quantiles as flat keys of a predictor's row.

    >>> planned_keys((Planned(0.3, 60.0, 0.7),))
    {'mae_s_at_30': 60.0, 'underestimate_rate_at_30': 0.7}
    """
    return {f"{key}_at_{100 * one.level:g}": value for one in planned for key, value in zip(one._fields[1:], one[1:])}


def in_mebibytes(row: Mapping[str, Any], per: str) -> dict[str, Any]:
    """Return a row of `metrics.accuracy` with the key names for memory: `mae_s` becomes `mae_mib`, and so on.

    >>> in_mebibytes({"predictor": "kernel", "mae_s": 3.0, "apa": 0.9}, "node")
    {'predictor': 'kernel', 'per': 'node', 'mae_mib': 3.0, 'apa': 0.9}
    """
    first, *rest = ((key.removesuffix("_s") + "_mib" if key.endswith("_s") else key, row[key]) for key in row)
    return dict([first, ("per", per), *rest])


@dataclass(frozen=True, slots=True)
class Target:
    """The predicted quantity: the column `view.run_time` has the actual values (n,), `view.req_time` the requested
    values.

    Values are seconds, or MiB of memory per `per`; the actual value is NaN for jobs that are not scored. A predicted
    bound is met if it is at least the value in `within` (n,). `wrap` converts a run-time predictor to a predictor that
    receives the log's events and learns the target.
    """

    view: Trace
    within: np.ndarray
    wrap: Callable[[Any], Any]
    per: str = ""


def run_time_target(trace: Trace) -> Target:
    """Return the run times unchanged; a bound equal to the time limit counts as met, because a batch system needs
    seconds to kill a job."""
    within = np.where(trace.req_time > 0, np.minimum(trace.run_time, trace.req_time), trace.run_time)
    return Target(trace, within, lambda method: method)


def memory_target(trace: Trace) -> Target:
    """Return peak memory as prediction target, in MiB per node or per processor (`table.memory` chooses the unit).

    From jobs that ran out of memory, predictors learn that the jobs needed more; these jobs are not scored, because the
    needed amount is unknown. Raises NoAnswer if no job has a measured peak.

    >>> log = Trace.from_arrays({"submit_time": [0, 5], "run_time": [1, 1], "req_procs": [2, 2],
    ...     "used_mem_kib": [4096.0, 2048.0], "status": ["completed", "out_of_memory"]})
    >>> memory_target(log).view.run_time.tolist()
    [2.0, nan]
    """
    use = measured(trace)
    truth = np.where(use.ended | np.isnan(trace.run_time), np.nan, use.used_kib) / MIB
    truth = np.maximum(truth, 1.0)  # NaN remains NaN
    view = trace.with_columns({"run_time": truth, "req_time": use.requested_kib / MIB})
    return Target(view, truth, lambda method: of_memory(method, use), use.per)


def measured(trace: Trace) -> MemoryUse:
    """Return the memory that jobs requested and used; raise NoAnswer if no peak was measured."""
    from ..formats.slurm.sacct_lines import COMMAND

    use = memory_use(trace)
    if use.measured_jobs:
        return use
    if not use.is_measured:
        why = f"the used memory equals the request in {use.copied:.1%} of the jobs with both: "
        why += "it is a copy and not a measurement"
    elif use.zeros:
        why = f"no job has a measured peak of memory ({use.zeros} have a use of 0)"
    else:
        why = "the log has no used memory"
    raise NoAnswer(why, hint=f"the rows of job steps contain the used memory: {COMMAND}, without -X")


def of_memory(method: Any, use: MemoryUse, most: float = math.inf) -> PeakMemory:
    """Return a run-time method as a predictor of peak memory, which learns the peak from each job's End event."""
    asked, used = use.requested_kib.tolist(), use.used_kib.tolist()
    return PeakMemory(method, lambda job: asked[job.row], lambda end: used[end.job.row], most)
