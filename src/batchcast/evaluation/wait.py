# SPDX-License-Identifier: Apache-2.0
"""Replay a log through wait predictors and score their point predictions and whole distributions.

`judge_waits` measures how well waits are predicted on the latest jobs of a log, compared with the simplest method.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from time import perf_counter, process_time
from typing import Any

import numpy as np

from ..errors import NoAnswer, UsageError
from ..events.record import SPOILED
from ..events.recorded import Forecasts, after_the_log, replay
from ..machines.machine import Machine
from ..metrics.accuracy import SIZE_CLASSES, size_class
from ..metrics.bursts import bursts
from ..metrics.coverage import is_covered
from ..metrics.measure import mean
from ..metrics.wait import BINS_S, good, identified_at, log_crps, score_waits, share_by_window
from ..predict.batched import Timed, has_batch_path
from ..predict.hazard.bins import ENDS_S, quantiles, reached
from ..predict.protocol import SHORTEST, QuickMarks, wait_option
from ..predict.registry import check_installed, fresh, load, make, method_of, name_of, named_methods, parse_spec, takes
from ..table import Trace
from .differences import ResultRow, shown_names

AT_MISGUIDED = 0.04
TOLD_S = {"10min": 600.0, "1h": 3600.0, "4h": 14400.0, "1d": 86400.0}
"""Intervals of jobs with at least this predicted wait are scored separately: immediate starts would hide them."""
WINDOW = 5000
_RANGES = [int(np.flatnonzero(end == ENDS_S)[0]) for end in BINS_S]


def crps_of(wait: np.ndarray, forecasts: Forecasts) -> np.ndarray:
    """Return the CRPS (n,) of log(1 + wait) of each prediction: from its quantiles if it has a median, else from its
    point.

    One second is the shortest wait that a method may predict, so it counts as no wait.
    """
    has_median = 0.5 in forecasts.levels
    values = forecasts.quantiles if has_median else forecasts.points[:, None]
    return log_crps(wait, forecasts.levels if has_median else (0.5,), np.where(values <= SHORTEST, 0.0, values))


@dataclass(frozen=True, slots=True)
class Scored:
    """One method's predictions for n jobs, and its probabilities.

    `chances` has the probability that each job has started by the end of each bin of predict/hazard, shape (n, bins);
    None if the method gives no probabilities.
    """

    predictor: str
    forecasts: Forecasts
    chances: np.ndarray | None

    def take(self, mask: np.ndarray) -> Scored:
        """Return the predictions for the jobs in `mask` (n,)."""
        chances = None if self.chances is None else self.chances[mask]
        return Scored(self.predictor, take_rows(self.forecasts, mask), chances)

    def quick_score(self, threshold: float) -> np.ndarray:
        """Return the score that ranks jobs (n,) by how likely they start within `threshold`: the predicted probability,
        else the negative point prediction."""
        if self.chances is None:
            return -self.forecasts.points
        return reached(self.chances, np.full(len(self.chances), threshold))


def take_rows(forecasts: Forecasts, mask: np.ndarray) -> Forecasts:
    """Return the predictions for the jobs in `mask` (n,), with the basis of each prediction."""
    basis, grounds = (list(compress(words, mask.tolist())) for words in (forecasts.basis, forecasts.grounds))
    return Forecasts(forecasts.points[mask], forecasts.levels, forecasts.quantiles[mask], basis, grounds)


def transforms(chances: np.ndarray, wait: np.ndarray) -> np.ndarray:
    """Return the predicted probability (n,) of a wait no longer than the actual wait, which is spread evenly within its
    second."""
    spread = (0.5 + np.arange(len(wait)) * 0.6180339887498949) % 1.0
    return reached(chances, wait - spread)


def chance_figures(scored: Scored, wait: np.ndarray, run: np.ndarray, threshold: float) -> dict[str, Any]:
    """Return the measures of one method's row: CRPS, quick starters identified at 4 % misguided, coverage, and share of
    jobs whose wait lies in the range predicted as likeliest.

    All arrays contain only the scored jobs, in the log's order. Keys that end in `_low` and `_high` are the lowest and
    the highest value over windows of 5,000 jobs; `told_1h_80` and similar keys are for jobs with a predicted wait of an
    hour or more. Measures that do not apply to a method are NaN.
    """
    nothing, likeliest = np.full(len(wait), np.nan), float("nan")
    inside = {80: nothing, 90: nothing}
    if scored.chances is not None:
        at = transforms(scored.chances, wait)
        likeliest = float(good(likeliest_point(scored.chances), wait, run).mean())
        inside = {80: (at > 0.1) & (at <= 0.9), 90: (at > 0.05) & (at <= 0.95)}
    figures: dict[str, Any] = {
        "crps_log": float(crps_of(wait, scored.forecasts).mean()),
        "identified_at_4": identified_at(scored.quick_score(threshold), wait <= threshold, AT_MISGUIDED),
        "good_likeliest": likeliest,
    }
    for level, is_inside in inside.items():
        shares = share_by_window(is_inside, WINDOW)
        figures |= {f"interval_{level}": float(is_inside.mean()), f"interval_{level}_low": float(shares.min()),
                    f"interval_{level}_high": float(shares.max())}  # fmt: skip
    for name, least in TOLD_S.items():
        so_long = scored.forecasts.points >= least
        figures[f"told_{name}_jobs"] = int(so_long.sum())
        for level, is_inside in inside.items():
            figures[f"told_{name}_{level}"] = float(is_inside[so_long].mean()) if so_long.any() else float("nan")
    return figures


def likeliest_point(chances: np.ndarray) -> np.ndarray:
    """Return the median (n,), seconds, of the predicted wait within its likeliest range, of the ranges up to (1, 3,
    6, 12, 24, 48 h, more).

    >>> likeliest_point(np.linspace(0.0, 1.0, 33)[None, :]).round().tolist()
    [147.0]
    """
    at = np.column_stack([np.zeros(len(chances)), chances[:, _RANGES], np.ones(len(chances))])
    best = np.argmax(np.diff(at, axis=1), axis=1)
    rows = np.arange(len(chances))
    middle = 0.5 * (at[rows, best] + at[rows, best + 1])
    return np.asarray(np.maximum(quantiles(chances, middle[:, None])[:, 0], 1.0))


@dataclass(frozen=True, slots=True)
class WaitRun(Scored):
    """One method's results on one log: its predictions (NaN for jobs that were not predicted), its probabilities, and
    its cost. `marks` is None if the method only predicts waits."""

    protocol: str
    marked: np.ndarray
    answer: np.ndarray
    marks: QuickMarks | None
    seconds: float
    search_s: float
    remark: str


@dataclass(frozen=True, slots=True)
class RecordedClock:
    """How a log is replayed: the order of events, the rule for a job's processors, and the machine.

    If `protocol` is None, the method's own protocol applies (`WaitMethod`). If `total` is None, the log's machine size
    applies. `machine` describes the nodes for methods that simulate them.
    """

    protocol: str | None = None
    procs: str = "req"
    total: float | None = None
    machine: Machine | None = None


def run_wait(trace: Trace, predictor: Any, ask: np.ndarray, **options: Any) -> WaitRun:
    """Predict the waits of the jobs in `ask` (n,) with one method. `options`: keyword arguments of `run_waits`."""
    return run_waits(trace, {name_of(predictor): predictor}, ask, **options)[name_of(predictor)]


def run_waits(
    trace: Trace,
    predictors: Mapping[str, Any],
    ask: np.ndarray,
    *,
    threshold: float = 3600.0,
    cancelled: str = "count",
    on: RecordedClock = RecordedClock(),
    tick: Callable[[int], None] | None = None,
) -> dict[str, WaitRun]:
    """Predict the waits of the jobs in `ask` (n,) with each method, each wait from the history before its submission.

    Methods with the same order of events share one pass over the log. `WaitRun.seconds` is the CPU time of a method
    that predicts the whole log in one call, without `search_s`, the CPU time of searching the method's settings. For
    other methods, `WaitRun.seconds` is the elapsed time of their calls, because reading the CPU time takes longer than
    many of these calls.
    """
    size = trace.info.max_procs if on.total is None else on.total
    methods: dict[str, Any] = {}
    said: dict[str, Forecasts] = {}
    seconds: dict[str, float] = {}
    passes: dict[str, dict[str, Timed]] = {}
    for name, predictor in predictors.items():
        is_named = isinstance(predictor, str)
        settings = with_settings(predictor, threshold=threshold, cancelled=cancelled) if is_named else predictor
        vouched = trace.info.known_at_submit
        method = methods[name] = method_of("wait", settings, known_at_submit=vouched, trace=trace, machine=on.machine)
        clock = clock_of(method, on)
        if not has_batch_path(method):
            passes.setdefault(clock, {})[name] = Timed(method, perf_counter)
            continue
        if is_named:  # compiled kernels are loaded before the time is measured
            first = trace.take(np.arange(min(len(trace), 50)))
            make("wait", predictor, known_at_submit=vouched).predict_trace(first, clock, on.procs, total=size)
        began = process_time()
        said[name] = method.predict_trace(trace, clock, on.procs, total=size, ask=ask)
        seconds[name] = process_time() - began
    for clock, timed in passes.items():
        said |= replay(trace, timed, protocol=clock, procs=on.procs, total=size, ask=ask, tick=tick)
        seconds |= {name: method.seconds for name, method in timed.items()}
    return {name: _run(name, methods[name], said[name], seconds[name], threshold, on) for name in predictors}


def clock_of(method: Any, on: RecordedClock) -> str:
    """Return the order of events in which the method is run."""
    return str(on.protocol or wait_option(method, "protocol"))


def _run(name: str, method: Any, forecasts: Forecasts, seconds: float, threshold: float, on: RecordedClock) -> WaitRun:
    """Return a method's results with the jobs that it marks as quick starters, by its mark, its bound or its point."""
    answer = forecasts.points
    if wait_option(method, "answers_by") == "bound":
        answer = forecasts.quantiles[:, -1] if forecasts.levels else np.full(len(answer), np.nan)
    marked, marks = answer <= threshold, wait_option(method, "marks")
    if marks is not None:
        marked, answer = marks.quick, np.where(marks.quick, threshold, forecasts.points if marks.has_waits else np.inf)
    search_s, chances = wait_option(method, "search_s") or 0.0, wait_option(method, "chances")
    clock, remark = clock_of(method, on), wait_option(method, "remark")
    return WaitRun(name, forecasts, chances, clock, marked, answer, marks, seconds - search_s, search_s, remark)


def score_run(run: WaitRun, trace: Trace, rows: np.ndarray, threshold: float) -> dict[str, float]:
    """Return the measures of a run over the scored rows."""
    bound = run.forecasts.quantiles[:, -1] if run.forecasts.levels else np.full(len(trace), np.nan)
    points, marked, answer = run.forecasts.points[rows], run.marked[rows], run.answer[rows]
    return score_waits(recorded_wait(trace)[rows], trace.run_time[rows], points, bound[rows], marked, answer, threshold)


def figures(run: WaitRun, trace: Trace, rows: np.ndarray, threshold: float) -> ResultRow:
    """Return a method's row: the measures, quick starters in the recent history, and the cost."""
    score = score_run(run, trace, rows, threshold)
    wait = recorded_wait(trace)
    score |= chance_figures(run.take(rows), wait[rows], trace.run_time[rows], threshold)
    quick, marks = rows & (wait <= threshold), run.marks
    return ResultRow({
        "predictor": run.predictor,
        "quick_s": threshold,
        "protocol": run.protocol,
        **score,
        "near_share": float(marks.near[quick].mean()) if marks and quick.any() else float("nan"),
        "near_jobs": float(marks.near_jobs[rows].mean()) if marks else float("nan"),
        "seconds": run.seconds,
    })  # fmt: skip


def crps(run: WaitRun, trace: Trace) -> np.ndarray:
    """Return the CRPS (n,) of log(1 + wait) of a run; NaN for jobs that were not predicted."""
    return crps_of(recorded_wait(trace), run.forecasts)


def scored_groups(trace: Trace, rows: np.ndarray, procs: str = "req") -> dict[str, list[str]]:
    """Return the partition, the queue (if there are several) and the processors of every scored job, as text."""
    groups: dict[str, list[str]] = {}
    for name in ("partition", "queue"):
        codes, names = trace.nominal(f"{name}_id").codes[rows], shown_names(trace, f"{name}_id")
        if len(np.unique(codes)) > 1:
            groups[name] = [names[code] if code >= 0 else "unknown" for code in codes.tolist()]
    classes = size_class(trace.procs(procs))[rows].tolist()
    return {**groups, "processors": [SIZE_CLASSES[code] if code >= 0 else "unknown" for code in classes]}


def add_identified_at_marks(
    rows: Sequence[ResultRow], runs: Sequence[tuple[float, WaitRun]], trace: Trace, scored: np.ndarray
) -> None:
    """Add to each row the share of quick starters that the method identifies if it may misguide as many jobs as the
    method that marks quick starters, if such a method is among the runs."""
    wait = recorded_wait(trace)[scored]
    shares = {row["quick_s"]: row["misguided_share"] for row, (_, run) in zip(rows, runs) if run.marks is not None}
    for row, (threshold, run) in zip(rows, runs):
        if (share := shares.get(threshold)) is not None:
            score = run.take(scored).quick_score(threshold)
            row["identified_at_marks"] = identified_at(score, wait <= threshold, share)


def recorded_wait(trace: Trace) -> np.ndarray:
    """Return the waits that are scored: NaN if the recorded wait is missing or negative."""
    return np.where(trace.wait_time >= 0, trace.wait_time, np.nan)


def scored_rows(trace: Trace, jobs: tuple[int, int] | None = None, cancelled: str = "count") -> np.ndarray:
    """Return a mask of the scored jobs: the jobs at the positions `jobs` of the log (from 1, both ends included) that
    have a known wait.

    `cancelled="skip"` excludes jobs that never ran. Raises NoAnswer if no job is left.
    """
    wait = recorded_wait(trace)
    rows = ~np.isnan(wait)
    if cancelled == "skip":
        rows &= ~np.isnan(trace.run_time)
    if not rows.any():
        raise NoAnswer(f"{trace.info.source}: no job has a recorded wait", hint="a log with start times")
    if jobs is not None:
        rows[: jobs[0] - 1], rows[jobs[1] :] = False, False
    if not rows.any():
        raise NoAnswer(f"none of the {len(trace)} jobs of the log can be scored", hint="a wider --places")
    return np.asarray(rows)


def irregular_waits(trace: Trace, procs: str = "req") -> dict[str, int]:
    """Return the number of records from which predictors do not learn, by reason (outages: `SystemState.taught`)."""
    wait, sizes = trace.wait_time, trace.procs(procs)
    spoiled, outages = outage_waits(trace, procs)
    which = "an outage" if outages == 1 else f"one of {outages} outages"
    return {
        "no recorded wait": int(np.isnan(wait).sum()),
        "start before submit": int((wait < 0).sum()),
        "larger than the machine": int((sizes > trace.info.max_procs).sum()),
        f"waited through {which} (a day without any event although a queued job had room)": int(spoiled.sum()),
    }


def outage_waits(trace: Trace, procs: str = "req") -> tuple[np.ndarray, int]:
    """Return the jobs that waited through an outage (n,), and the number of outages, as `SystemState` detects
    outages."""
    columns = after_the_log(trace, "honest", procs, total=trace.info.max_procs)
    return columns.jobs["lesson"][: len(trace)] == SPOILED, int(columns.record["outages"][0])


def with_settings(spec: str, kind: str = "wait", /, **settings: Any) -> str:
    """Return the method's spec, completed with each given setting that the method accepts and the spec does not set.

    >>> with_settings("recent_wait:k=9", cancelled="skip", threshold=60.0)
    'recent_wait:k=9,cancelled=skip'
    """
    name, given = parse_spec(spec)
    added = [f"{key}={value}" for key, value in settings.items() if key not in given and takes(kind, name, key)]
    return spec + (":" if added and not given else "," if added else "") + ",".join(added)


def parse_jobs(text: str) -> tuple[int, int]:
    """Parse `10001:50000`, `10001:` or `:50000` as a range of job positions, counted from 1, both ends included.

    >>> parse_jobs("10001:50000"), parse_jobs(":9")
    ((10001, 50000), (1, 9))
    """
    first, colon, last = text.partition(":")
    if not colon or not all(part.strip().isdigit() or not part.strip() for part in (first, last)):
        raise UsageError(f"--places: {text!r} (accepted: FIRST:LAST, places in the log from 1, e.g. 10001:50000)")
    jobs = (int(first) if first.strip() else 1, int(last) if last.strip() else 2**62)
    if not 1 <= jobs[0] <= jobs[1]:
        raise UsageError(f"--places: {text!r} is empty (accepted: FIRST:LAST with 1 <= FIRST <= LAST)")
    return jobs


def parse_thresholds(text: str) -> list[float]:
    """Parse `30m`, a list `10m,30m,1h`, or a range in steps of 10 minutes, `10m..60m`, to seconds.

    >>> parse_thresholds("10m..30m"), parse_thresholds("1h")
    ([600.0, 1200.0, 1800.0], [3600.0])
    """
    from ..units import parse_span

    thresholds: list[float] = []
    for piece in filter(None, (p.strip() for p in text.split(","))):
        low, dots, high = piece.partition("..")
        if dots:
            first, last = parse_span(low), parse_span(high)
            thresholds += [first + 600.0 * k for k in range(int((last - first) // 600.0) + 1)]
        else:
            thresholds.append(parse_span(low))
    if not thresholds or not all(1.0 <= value < float("inf") for value in thresholds):
        raise UsageError(f"--quick-wait: {text!r} (accepted: 30m, 10m,30m,1h or 10m..60m; at least 1 s)")
    return thresholds


def last_needed(rows: np.ndarray) -> int:
    """Return how many jobs from the log's start must be replayed to predict the scored rows."""
    return int(np.flatnonzero(rows)[-1]) + 1


def compare(
    trace: Trace, predictor: Any, rows: np.ndarray, thresholds: Sequence[float], **options: Any
) -> list[tuple[float, WaitRun]]:
    """Return the run of every method for every threshold, as pairs of threshold and run; a method without a threshold
    runs only once.

    `rows` (n,) marks the jobs to predict, and `options` are keyword arguments of `run_waits`.

    `predictor` is a name, a class, an object, a function that creates one, or several of these
    (`predict.registry.named_methods`).
    """
    head, methods = trace.take(np.arange(last_needed(rows))), named_methods(predictor, "wait")
    check_installed("wait", methods.values())
    # the methods whose predictions depend on how long a quick starter waits at most
    marking = {n for n, m in methods.items() if isinstance(m, str) and takes("wait", parse_spec(m)[0], "threshold")}
    runs: dict[float, dict[str, WaitRun]] = {}
    for threshold in thresholds:
        due = {name: fresh(method) for name, method in methods.items() if not runs or name in marking}
        runs[threshold] = run_waits(head, due, rows[: len(head)], threshold=threshold, **options)
    first = runs[thresholds[0]]
    return [
        (at, runs[at][name] if name in marking else replace(first[name], marked=first[name].answer <= at))
        for name in methods
        for at in thresholds
    ]


def passes(specs: Sequence[str]) -> list[list[str]]:
    """Group methods by the passes over a log that they need: methods that predict event by event share one pass, except
    methods that simulate a machine, which take minutes.

    >>> passes(["recent_wait", "scheduler_replay", "recent_wait:k=9", "forecast"])
    [['recent_wait', 'recent_wait:k=9'], ['scheduler_replay'], ['forecast']]
    """
    names = {spec: parse_spec(spec)[0] for spec in specs}
    alone = [s for s, n in names.items() if hasattr(load("wait", n), "predict_trace") or takes("wait", n, "machine")]
    together = [spec for spec in specs if spec not in alone]
    return [group for group in (together, *([spec] for spec in alone)) if group]


METHOD = "forecast"
SIMPLEST = "recent_wait"
HISTORY, JUDGED = 1000, 1000
"""The replay learns from this many jobs before it judges the latest ones. Both numbers are small, because `forecast`
refits its model every few hundred jobs, and a report must not take much longer for it."""
LEAST_JUDGED = 50
"""Least number of separate submissions: jobs of one user within `SAME_S` seconds, such as a job array, are one."""
SAME_S = 60.0

LONG_S = 600.0
"""The example is the latest job with a predicted wait of at least this many seconds."""


@dataclass(frozen=True, slots=True)
class WaitExample:
    """One job on which wait predictions are tested: the likely wait and the 90 % bound as predicted at submission, and
    the recorded wait, seconds."""

    job_id: str
    likely_s: float
    bound_s: float
    waited_s: float


@dataclass(frozen=True, slots=True)
class WaitAccuracy:
    """Accuracy of wait predictions made at submission, measured on the latest jobs of a log."""

    predictor: str  # The method whose predictions users see, and the simplest method, the median of recent waits
    jobs: int  # Number of tested jobs, and number of earlier jobs from which the methods learned
    history: int
    coverage: float  # Share of the tested jobs that started by their predicted 90 % bound
    median_error_s: float  # Median absolute error of the predicted wait, seconds, of both methods
    simplest: str
    simplest_median_error_s: float
    # The latest tested job with a predicted wait of ten minutes or more; None if there is no such job.
    example: WaitExample | None = None

    def row(self) -> dict[str, Any]:
        """Return the accuracy as one flat object for JSON."""
        return {
            "part": "wait", "predictor": self.predictor, "jobs": self.jobs, "history_jobs": self.history,
            "coverage_90": self.coverage, "median_ae_s": self.median_error_s, "simplest": self.simplest,
            "simplest_median_ae_s": self.simplest_median_error_s,
        }  # fmt: skip


def judge_waits(
    trace: Trace, inside: np.ndarray, *, procs: str = "req", tick: Callable[[int], None] | None = None
) -> WaitAccuracy | str:
    """Replay the latest jobs of `inside` and measure the accuracy of their predicted waits; return the reason as a
    sentence if too few separate submissions can be tested, or LightGBM cannot be loaded.
    """
    known = np.flatnonzero(inside & ~np.isnan(recorded_wait(trace)))
    places = known[-min(JUDGED, len(known) // 2) :] if len(known) > 1 else known  # the first half is history
    if missing := _missing():
        return missing
    if len(places) < LEAST_JUDGED:
        return f"fewer than {2 * LEAST_JUDGED} scored jobs have a recorded wait"
    if bursts(trace.nominal("user_id").codes[places], trace.submit_time[places], SAME_S).max() + 1 < LEAST_JUDGED:
        return f"the latest {len(places):,} jobs came in fewer than {LEAST_JUDGED} separate submissions"
    first = max(0, int(places[0]) - HISTORY)
    part = trace.take(np.arange(first, int(places[-1]) + 1))
    judged = np.zeros(len(part), bool)
    judged[places - first] = True
    on = RecordedClock("honest", procs)
    own, simplest = (run_wait(part, name, judged, on=on).forecasts for name in (METHOD, SIMPLEST))
    if tick is not None:
        tick(len(part))
    wait = recorded_wait(part)[judged]
    bound = own.quantiles[judged, own.levels.index(0.9)]
    errors = [float(np.median(np.abs(each.points[judged] - wait))) for each in (own, simplest)]
    coverage = mean(is_covered(wait, bound))
    likely = own.points[judged]
    long = np.flatnonzero(likely >= LONG_S)
    example = None
    if len(long):
        at = int(long[-1])
        job = str(part.job_id[judged][at])
        example = WaitExample(job, float(likely[at]), float(bound[at]), float(wait[at]))
    return WaitAccuracy(METHOD, len(wait), int(places[0]) - first, coverage, errors[0], SIMPLEST, errors[1], example)


def _missing() -> str:
    """Return the reason why LightGBM cannot be loaded; empty if it can be loaded. A report must not fail because
    LightGBM is missing."""
    try:
        import lightgbm  # noqa: F401 - it loads a library of the system, which may be missing
    except ImportError:
        return "LightGBM is not installed: pip install 'batchcast[learn]'"
    except OSError as error:
        return f"LightGBM cannot be loaded ({error}): install libgomp1 (Debian) or libgomp (Red Hat, SUSE)"
    return ""
