# SPDX-License-Identifier: Apache-2.0
"""Replay a log through predictors on the recorded clock.

The log is replayed as a whole, or in periods between which each method's state is carried over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from .. import plots
from ..errors import UsageError, check_word, says_arguments
from ..events.recorded import Forecasts, replay_periods
from ..predict import batched
from ..predict.registry import make, named_methods, parse_spec
from ..table import Trace, check_log
from ..table.result import Picture, Result
from .accuracy import fresh_predictor
from .wait import DEFAULT_PROTOCOL, recorded_wait, with_settings


def jobs_mask(name: str, mask: Any, trace: Trace) -> np.ndarray:
    """Return one boolean per job, all true by default; UsageError for another shape.

    >>> jobs_mask("mask", None, Trace.from_arrays({"submit_time": [0.0, 1.0]}))
    array([ True,  True])
    """
    inside = np.ones(len(trace), bool) if mask is None else np.asarray(mask)
    if inside.shape != (len(trace),) or inside.dtype != bool:
        what = f"{inside.dtype} of shape {inside.shape}"
        raise UsageError(f"{name}: {what} (accepted: one boolean for each of the {len(trace):,} jobs)")
    return inside


class Replay(dict[str, Forecasts], Result):
    """Result of `replay`: the `Forecasts` of each method by name, and the actual values (n,), in log order."""

    def __init__(self, forecasts: Mapping[str, Forecasts], trace: Trace, target: str) -> None:
        super().__init__(forecasts)
        self.trace, self.target = trace, target

    def __repr__(self) -> str:
        return f"<Replay of {len(self.trace)} jobs, {self.target}: {', '.join(self)}>"

    @property
    def outcome(self) -> np.ndarray:
        """Actual values (n,), seconds, NaN if unknown."""
        return self.trace.run_time if self.target == "run_time" else recorded_wait(self.trace)

    def columns(self) -> dict[str, Any]:
        """Return job, submission and actual value, then NAME and, per level, NAME q0.9 of each method."""
        found: dict[str, Any] = {"job_id": self.trace.job_id, "submit_time": self.trace.submit_time}
        found[self.target] = self.outcome
        for name, said in self.items():
            found[name] = said.points
            found |= {f"{name} q{level:g}": said.quantiles[:, k] for k, level in enumerate(said.levels)}
        return found

    _summary = Result._described

    def _pictures(self) -> Mapping[str, Picture]:
        return {
            "errors": partial(plots.errors, self.outcome, self),
            "coverage": partial(plots.coverage, self.outcome, self),
        }


@says_arguments
def replay(
    trace: Trace,
    predictor: Any,
    *,
    target: str = "run_time",
    protocol: str = "honest",
    procs: str = "req",
    total: float | None = None,
    seed: int = 0,
    known_at_submit: Sequence[str] = (),
    ask: np.ndarray | None = None,
    tick: Any = None,
) -> Replay:
    """Return each predictor's predictions for every job at its submission, from the jobs ended by then.

    Parameters
    ----------
    trace
        The log.
    predictor
        A name with parameters (`last_2:need=2`) or a comma list of them, a class, an object, or a function that makes
        one of the log; a sequence of these, or a mapping of names to them. An object is taught as it is. Answers are
        seconds or a `Prediction`; estimators of river's and scikit-learn's shapes are taken as they are.
    target
        What the predictors predict: `run_time` or `wait_time`.
    protocol
        `honest`, or `paper`: the predictor learns of a job's end right after the job's submission.
    procs
        A job's processors: `req` (requested, else allocated) or `alloc`.
    total
        The machine's processors, by default the log's.
    seed
        For methods that draw.
    known_at_submit
        Columns of the log beyond batchcast's own that a predictor may use (`Trace.knowing`).
    ask
        Where to ask, (n,) booleans, by default everywhere; predictors learn from all.
    tick
        Called with the number of jobs done.

    Returns
    -------
    Replay
        `Forecasts` by the predictors' names: points, quantiles, bases in log order.

    Raises
    ------
    UsageError
        For an unknown method, parameter, column or protocol.
    BatchcastError
        At the first answer that is no number, not finite or negative: the job and the method are named.

    Notes
    -----
    One pass over the events, about 3 microseconds a job and the predictors' own; a method with `predict_trace` is asked
    afresh, in batches.

    Examples
    --------
    >>> log = Trace.from_arrays({"submit_time": [0, 50], "wait_time": [0, 0], "run_time": [9, 9], "req_time": [60, 60],
    ...                          "user_id": ["ada", "ada"]})
    >>> {name: said.points.tolist() for name, said in replay(log, ["requested", "last_2"]).items()}
    {'requested': [60.0, 60.0], 'last_2': [60.0, 9.0]}
    """
    check_log(trace)
    ask = None if ask is None else jobs_mask("ask", ask, trace)
    trace = trace.knowing(known_at_submit)
    size = trace.info.max_procs if total is None else total
    check_word("target", target, TARGETS)
    kind = TARGETS[target]
    objects = {
        name: fresh_predictor(method, trace, size, seed, kind=kind, who=name)
        for name, method in named_methods(predictor, kind).items()
    }
    said = batched.replay(trace, objects, protocol=protocol, procs=procs, total=size, ask=ask, tick=tick)
    return Replay(said, trace, target)


TARGETS = {"run_time": "runtime", "wait_time": "wait"}
KINDS = tuple(TARGETS.values())


def forecast_periods(
    kind: str,
    periods: Iterable[Trace],
    specs: Sequence[str],
    *,
    protocol: str | None = None,
    procs: str = "req",
    seed: int = 0,
    cancelled: str = "count",
    tick: Callable[[int], None] | None = None,
) -> Iterator[tuple[Trace, int, dict[str, Forecasts]]]:
    """Yield each period with its first row and every method's predictions, equal to those for the whole log.

    `kind` is `runtime` or `wait`; periods come in order of submission (`trace.parquet.LogFolder.periods`), and no two
    periods share an instant. Methods are asked event by event; their history, the queue, the running jobs and the clock
    continue from one period to the next. If `protocol` is None, all methods must have the same default protocol, which
    is used.

    Raises
    ------
    UsageError
        Names the method that needs the whole log at once: `actual`, which has the answers, and those that search their
        settings beforehand.

    Notes
    -----
    In memory are two periods, the unfinished jobs and what the methods remember; a method that holds every job's place
    (`holds_entries`) keeps some 300 bytes a job.
    """
    source = iter(periods)
    first = next(source, None)
    if first is None:
        return
    size = first.info.max_procs
    methods = {spec: _method(kind, spec, first, size, seed, cancelled) for spec in specs}
    clock = protocol or _one_protocol(methods)
    yield from replay_periods(
        chain([first], source),
        methods,
        protocol=clock,
        procs=procs,
        total=size,
        forget=not any(getattr(method, "holds_entries", False) for method in methods.values()),
        tick=tick,
    )


def _method(kind: str, spec: str, trace: Trace, size: float, seed: int, cancelled: str) -> Any:
    if parse_spec(spec)[0] == "actual":
        raise UsageError("actual knows the run times of the whole log, so it cannot run period by period",
                         hint="the other methods")  # fmt: skip
    vouched = trace.info.known_at_submit
    if kind == "runtime":
        return make("runtime", spec, known_at_submit=vouched, max_procs=size, rng=np.random.default_rng(seed),
                    seed=seed)  # fmt: skip
    method = make("wait", with_settings(spec, cancelled=cancelled), known_at_submit=vouched)
    if hasattr(getattr(method, "fallback", None) or method, "search_s"):
        raise UsageError(f"{spec} searches its settings in the log first, so it needs the whole log at once",
                         hint="without --in-periods, or another method")  # fmt: skip
    return method


def _one_protocol(methods: dict[str, Any]) -> str:
    clocks = {str(getattr(method, "protocol", DEFAULT_PROTOCOL)) for method in methods.values()}
    if len(clocks) > 1:
        raise UsageError(f"these methods need their own protocol: {', '.join(sorted(clocks))}",
                         hint="choose --protocol NAME, or run a command for each method")  # fmt: skip
    return clocks.pop()
