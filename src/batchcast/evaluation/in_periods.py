"""Forecasts over a log that comes in periods: run times or waits, each method's state carried from one to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from ..errors import UsageError
from ..events.carried import replay_periods
from ..events.recorded import Forecasts
from ..predict.registry import make, parse_spec
from ..table import Trace
from .wait import DEFAULT_PROTOCOL, with_settings

KINDS = ("runtime", "wait")


def forecast_periods(
    kind: str,
    periods: Iterable[Trace],
    specs: Sequence[str],
    *,
    protocol: str | None = None,
    procs: str = "req",
    total: float | None = None,
    seed: int = 0,
    cancelled: str = "count",
    tick: Callable[[int], None] | None = None,
) -> Iterator[tuple[Trace, int, dict[str, Forecasts]]]:
    """Each period with its first row and what every method said of its jobs: those of the whole log at once.

    `kind` is `runtime` or `wait`; periods come in order of submission (`trace.folder.LogFolder.periods`) and part no
    instant. Methods are asked event by event; their history, the queue, the running jobs and the clock go on from one
    period to the next. `protocol` None is the methods' own, which has to be one.

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
    size = first.info.max_procs if total is None else total
    methods = {spec: _method(kind, spec, first, size, seed, cancelled) for spec in specs}
    clock = protocol or _one_protocol(methods)
    yield from replay_periods(
        chain([first], source),
        methods,
        protocol=clock,
        procs=procs,
        total=size,
        forget=not any(holds_entries(method) for method in methods.values()),
        tick=tick,
    )


def holds_entries(method: Any) -> bool:
    """Whether a method keeps jobs by their entry in the state, which then forgets none."""
    return bool(getattr(method, "holds_entries", False))


def _method(kind: str, spec: str, trace: Trace, size: float, seed: int, cancelled: str) -> Any:
    if parse_spec(spec)[0] == "actual":
        raise UsageError("actual has the answers of the whole log: it cannot be carried from period to period",
                         hint="the other methods")  # fmt: skip
    vouched = trace.info.known_at_submit
    if kind == "runtime":
        return make("runtime", spec, known_at_submit=vouched, max_procs=size, rng=np.random.default_rng(seed),
                    seed=seed)  # fmt: skip
    method = make("wait", with_settings(spec, cancelled=cancelled), known_at_submit=vouched)
    if hasattr(getattr(method, "fallback", None) or method, "prepare_trace"):
        raise UsageError(f"{spec} searches its settings in the log beforehand: it needs the whole log at once",
                         hint="without --in-periods, or another method")  # fmt: skip
    return method


def _one_protocol(methods: dict[str, Any]) -> str:
    clocks = {str(getattr(method, "protocol", DEFAULT_PROTOCOL)) for method in methods.values()}
    if len(clocks) > 1:
        raise UsageError(f"these methods have clocks of their own: {', '.join(sorted(clocks))}",
                         hint="--protocol NAME, or one command each")  # fmt: skip
    return clocks.pop()
