"""How good run-time forecasts are on a recorded log: one replay for all predictors, then figures by group."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from ..errors import UsageError
from ..events.event import Event
from ..events.recorded import Forecasts, replay
from ..events.state import SystemState
from ..job import JobRequest
from ..metrics.accuracy import SIZE_CLASSES, accuracy, size_class
from ..predict.fields import unknown_fields
from ..predict.protocol import Prediction, Predictor
from ..predict.registry import make, parse_spec
from ..table import Trace
from .periods import month_starts

GROUPS = ("user", "queue", "size", "month")


Maker = Callable[[Trace], Any]  # a fresh predictor of one's own for a trace


@dataclass(frozen=True, slots=True)
class Scores:
    """What predictors said of a log's run times, and which jobs count.

    `points` holds one array (n,) per predictor, NaN where it was not asked; `scored` (n,) marks jobs inside the score
    mask that ran; `never_ran` counts those inside it that did not, `outside` those the mask leaves out. `seconds` is
    the time spent inside each predictor, without the replay's own. `coverage` is the share of scored jobs that ended
    within each quantile a predictor gave, by level; `lacking` the fields it uses and this log does not know; `trained`
    what its refits found.
    """

    trace: Trace
    protocol: str
    procs: str
    points: Mapping[str, np.ndarray]
    seconds: Mapping[str, float]
    scored: np.ndarray
    never_ran: int
    outside: int
    oracles: frozenset[str]
    coverage: Mapping[str, Mapping[float, float]] = field(default_factory=dict)
    lacking: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    trained: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)


def score(
    trace: Trace,
    specs: Sequence[str],
    *,
    protocol: str = "honest",
    procs: str = "req",
    total: float = float("nan"),
    mask: np.ndarray | None = None,
    seed: int = 0,
    makers: Mapping[str, Maker] | None = None,
    tick: Callable[[int], None] | None = None,
) -> Scores:
    """Replay a log once on the recorded clock and collect every predictor's forecast at each scored submission.

    `specs` are names with parameters (predict.registry), or names of `makers`; predictors learn from the whole trace,
    `mask` (n,) says which jobs are scored (default: all). `tick(done)` is called now and then with submissions told.

    >>> trace = Trace.from_arrays({"submit_time": [0.0, 50.0], "wait_time": [0.0, 0.0], "run_time": [9.0, 9.0],
    ...     "req_time": [60.0, 60.0], "req_procs": [1, 1], "user_id": [1, 1]})
    >>> [r["mae_s"] for r in figures(score(trace, ["requested", "last_2"]))]
    [51.0, 25.5]
    """
    inside = np.ones(len(trace), bool) if mask is None else np.asarray(mask, bool)
    ran = ~np.isnan(trace.run_time)
    timed = {spec: Timed(predictor(spec, trace, total, seed, makers)) for spec in specs}
    with calm_collector():
        forecasts = replay(trace, timed, protocol=protocol, procs=procs, total=total, ask=inside & ran, tick=tick)
    return Scores(
        trace=trace,
        protocol=protocol,
        procs=procs,
        points={spec: forecasts[spec].points for spec in specs},
        seconds={spec: timed[spec].seconds for spec in specs},
        scored=inside & ran,
        never_ran=int((inside & ~ran).sum()),
        outside=int((~inside).sum()),
        oracles=frozenset(spec for spec in specs if parse_spec(spec)[0] == "actual"),
        coverage={spec: coverage(forecasts[spec], trace.run_time) for spec in specs},
        lacking={spec: unknown_fields(timed[spec].inner, trace) for spec in specs},
        trained={spec: getattr(timed[spec].inner, "trained", ()) for spec in specs},
    )


def coverage(said: Forecasts, run_time: np.ndarray) -> dict[float, float]:
    """The share of jobs that ran no longer than each quantile given, by its level; jobs without one do not count.

    >>> coverage(Forecasts(np.ones(2), (0.9,), np.array([[5.0], [1.0]]), ["", ""]), np.array([4.0, 2.0]))
    {0.9: 0.5}
    """
    found = {}
    for column, level in enumerate(said.levels):
        bound = said.quantiles[:, column]
        told = ~np.isnan(bound) & ~np.isnan(run_time)
        if told.any():
            found[level] = float((run_time[told] <= bound[told]).mean())
    return found


def predictor(spec: str, trace: Trace, total: float, seed: int, makers: Mapping[str, Maker] | None = None) -> Predictor:
    """A fresh run-time predictor for this log, by name or made by one of `makers`; only oracles get its answers."""
    if makers and spec in makers:
        return makers[spec](trace)
    return make(
        "runtime", spec, answers=trace.run_time.tolist(), max_procs=total, rng=np.random.default_rng(seed), seed=seed
    )


def figures(scores: Scores, by: str | None = None) -> list[dict[str, Any]]:
    """One flat row per predictor (and group: rows with the keys `by` and `group`, in `groups` order)."""
    if by is None:
        return [_row(scores, spec, scores.scored) for spec in scores.points]
    codes, names = groups(scores.trace, by, scores.procs)
    present = np.unique(codes[scores.scored]).tolist()
    masks = [(names[k] if k >= 0 else "unknown", scores.scored & (codes == k)) for k in present]
    return [
        {**_row(scores, spec, mask, seconds=False), "by": by, "group": name}
        for spec in scores.points
        for name, mask in masks
    ]


def _row(scores: Scores, spec: str, mask: np.ndarray, seconds: bool = True) -> dict[str, Any]:
    row = {"predictor": spec, **accuracy(scores.points[spec][mask], scores.trace.run_time[mask])}
    if not seconds:
        return row
    held = {f"coverage_{round(100 * level)}": share for level, share in scores.coverage.get(spec, {}).items()}
    lacking = {"lacking": " ".join(scores.lacking[spec])} if scores.lacking.get(spec) else {}
    return {**row, **held, **lacking, "seconds": scores.seconds[spec]}


def groups(trace: Trace, by: str, procs: str = "req") -> tuple[np.ndarray, Sequence[str]]:
    """Group of each job as an index (n,) into names, -1 unknown: by user, queue, size class or month (log's zone).

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
        column = trace.nominal(f"{by}_id")
        known = trace.info.names.get(f"{by}_id", {})
        return column.codes, [str(known.get(c, c)) for c in column.categories]
    raise UsageError(f"not a grouping: {by!r} (accepted: {', '.join(GROUPS)})")


@contextmanager
def calm_collector() -> Iterator[None]:
    """Python's cycle collector a few hundred times rarer: it walks millions of immutable events and finds nothing.

    It is not switched off: methods that train models do leave cycles behind.
    """
    usual = gc.get_threshold()
    gc.set_threshold(200_000, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


class Timed:
    """A predictor with a stop watch around it; optional members are there when the predictor's own are."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.seconds = 0.0
        self._predict, self._observe = inner.predict, inner.observe
        for name in ("refit_every_jobs", "refit_every_s"):
            if hasattr(inner, name):
                setattr(self, name, getattr(inner, name))
        if hasattr(inner, "refit"):
            self.refit = self._refit

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """As the predictor, timed."""
        begun = perf_counter()
        answer = self._predict(job, at)
        self.seconds += perf_counter() - begun
        return answer

    def observe(self, event: Event, at: SystemState) -> None:
        """As the predictor, timed."""
        begun = perf_counter()
        self._observe(event, at)
        self.seconds += perf_counter() - begun

    def _refit(self, now: float) -> None:
        begun = perf_counter()
        self.inner.refit(now)
        self.seconds += perf_counter() - begun
