"""The one protocol of predictors, run time and wait alike."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from ..events.event import Event
from ..events.state import SystemState
from ..job import JobRequest

SHORTEST = 1.0


class Prediction(NamedTuple):
    """A forecast in seconds (at least 1): a point, quantiles at nominal `levels` (monotone), and the basis in words.

    >>> Prediction(600.0, (0.5, 0.9), (600.0, 1500.0), "two jobs of this user").quantiles[1]
    1500.0
    """

    point: float
    levels: tuple[float, ...] = ()
    quantiles: tuple[float, ...] = ()
    basis: str = ""


@runtime_checkable
class Predictor(Protocol):
    """Asked once per job at its submission, taught by events; it never sees a record before its end.

    `predict` is pure: it changes nothing and may be skipped for jobs nobody scores; at that moment the job itself is
    not yet in the state, earlier jobs of the same instant are. `observe` receives every event right after the state
    took it in. Optional members: `refit(now)` with `refit_every_jobs` (submissions) or `refit_every_s` (seconds of the
    log's clock), called by the clock before the submission at which it falls due; `revise(job, elapsed, at)` for a new
    plan when a running job outlived its own; `predict_trace(trace, protocol, procs)` for a batch path that gives the
    very numbers of the one-by-one path.

    >>> class Hour:
    ...     def predict(self, job, at):
    ...         return Prediction(3600.0)
    ...     def observe(self, event, at):
    ...         pass
    >>> isinstance(Hour(), Predictor)
    True
    """

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """The forecast for a job submitted now (`at.now`)."""

    def observe(self, event: Event, at: SystemState) -> None:
        """Submit: note what will be needed; Start, End, Withdraw: learn."""


def at_least_a_second(seconds: float, limit: float = float("nan")) -> float:
    """A prediction kept inside its range: not above the user's limit (where known), not below one second.

    >>> at_least_a_second(0.0), at_least_a_second(500.0, limit=300.0)
    (1.0, 300.0)
    """
    capped = min(seconds, limit) if limit == limit else seconds
    return capped if capped > SHORTEST else SHORTEST
