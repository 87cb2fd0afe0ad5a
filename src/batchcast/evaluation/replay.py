# SPDX-License-Identifier: Apache-2.0
"""Replay a log through predictors event by event.

The log is replayed as a whole, or in periods between which the history of each method is carried over.
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
from ..metrics.measure import coverage_by_level
from ..predict import batched
from ..predict.protocol import wait_option
from ..predict.registry import make, named_methods, parse_spec
from ..table import Trace, check_log
from ..table.result import Picture, Result
from .accuracy import fresh_predictor
from .wait import RecordedClock, recorded_wait, with_settings


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
        """Actual run times or waits (n,), in seconds; NaN if unknown."""
        return self.trace.run_time if self.target == "run_time" else recorded_wait(self.trace)

    def columns(self) -> dict[str, Any]:
        """Return the columns job, submit time and actual value, and for each method NAME its point (`NAME`) and
        quantiles (such as `NAME q0.9`)."""
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
            "coverage": partial(plots.coverage, {
                name: coverage_by_level(self.outcome, said.levels, said.quantiles) for name, said in self.items()
            }),
        }  # fmt: skip


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
    """Return each predictor's predictions for every job at its submission, from the jobs that had ended before.

    Parameters
    ----------
    trace
        The log.
    predictor
        A name with parameters (`last_2:need=2`), a comma-separated list of names, a class, an object, or a function
        that creates a predictor for the log; or a sequence of these, or a mapping from names to them. A predictor
        object is trained itself, not a copy. A predictor returns seconds or a `Prediction`; estimators of river and
        scikit-learn are adapted automatically.
    target
        What the predictors predict: `run_time` or `wait_time`.
    protocol
        `honest`, or `paper`: the predictor learns a job's run time right after the job's submission.
    procs
        Which processor count of a job is used: `req` (requested, else allocated) or `alloc`.
    total
        The machine's processors, by default the log's.
    seed
        Random seed of the methods.
    known_at_submit
        Further columns of the log that predictors may use (`Trace.knowing`).
    ask
        Which jobs to predict, booleans of shape (n,), by default all jobs; predictors learn from all jobs.
    tick
        Function that is called with the number of replayed jobs.

    Returns
    -------
    Replay
        `Forecasts` by the predictors' names: points, quantiles and bases of all jobs in log order.

    Raises
    ------
    UsageError
        For an unknown method, parameter, column or protocol.
    BatchcastError
        At the first prediction that is not a number, not finite or negative; the message names the job and the method.

    Notes
    -----
    The replay is one pass over the events and takes about 3 microseconds per job, plus the predictors' time. A method
    with `predict_trace` predicts in batches, from a new copy.

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
        name: fresh_predictor(method, trace, size, seed, kind=kind, name=name)
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
    on: RecordedClock = RecordedClock(),
    *,
    seed: int = 0,
    cancelled: str = "count",
    tick: Callable[[int], None] | None = None,
) -> Iterator[tuple[Trace, int, dict[str, Forecasts]]]:
    """Yield each period with the row of its first job and every method's predictions, which equal the predictions in a
    replay of the whole log.

    `kind` is `runtime` or `wait`; periods come in order of submission (`trace.parquet.LogFolder.periods`), and no two
    periods share an instant. Methods predict event by event; their history, the queue, the running jobs and the clock
    continue from one period to the next. If `protocol` is None, all methods must have the same default protocol, which
    is used. Raises UsageError for a method that needs the whole log at once, such as `actual`.
    """
    # Two periods, the unfinished jobs and the methods' data are in memory. A method that refers to jobs by their entry
    # in the state (`holds_entries`) needs some 300 bytes per job of the log.
    source = iter(periods)
    first = next(source, None)
    if first is None:
        return
    size = first.info.max_procs
    methods = {spec: _method(kind, spec, first, size, seed, cancelled) for spec in specs}
    clock = on.protocol or _one_protocol(methods)
    yield from replay_periods(
        chain([first], source),
        methods,
        protocol=clock,
        procs=on.procs,
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
    if wait_option(method, "search_s") is not None:
        raise UsageError(f"{spec} searches its settings in the log first, so it needs the whole log at once",
                         hint="without --in-periods, or another method")  # fmt: skip
    return method


def _one_protocol(methods: dict[str, Any]) -> str:
    clocks = {str(wait_option(method, "protocol")) for method in methods.values()}
    if len(clocks) > 1:
        raise UsageError(f"these methods need their own protocol: {', '.join(sorted(clocks))}",
                         hint="choose --protocol NAME, or run a command for each method")  # fmt: skip
    return clocks.pop()
