# SPDX-License-Identifier: Apache-2.0
"""The one protocol of predictors, run time and wait alike, and what a method is called where people read."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import msgspec

if TYPE_CHECKING:  # an answer from a store takes a Prediction, and neither events nor numpy
    from ..events.event import Event
    from ..events.state import SystemState
    from ..job import JobRequest

SHORTEST = 1.0


class Grounds(StrEnum):
    """What a forecast rests on, for code to ask; a text, so that it can be stored as it is.

    >>> Grounds("class") is Grounds.CLASS
    True
    """

    UNSTATED = "unstated"
    NO_HISTORY = "no_history"
    """Nothing to go by: the number is a placeholder, and no answer for a user."""
    LIMIT = "limit"
    """The user's limit, or what stands in for one."""
    OWN_HISTORY = "own_history"
    """Finished jobs of the same user."""
    CLASS = "class"
    """Finished jobs that look the same on some columns."""
    EVERYONE = "everyone"
    """All finished jobs together."""
    MODEL = "model"
    """A model or a distribution fitted to finished jobs."""
    SIMULATION = "simulation"
    """The schedule simulated forward."""
    FALLBACK = "fallback"
    """Another method answered in this one's place; the predictor's `falls_back_to` says which."""
    SCHEDULER = "scheduler"
    """The batch system's own estimate."""
    ORACLE = "oracle"
    """The answer itself."""


class Prediction(msgspec.Struct, frozen=True, gc=False):
    """A forecast: a point, quantiles, and what it rests on. Frozen; `msgspec.structs.replace` makes a changed one.

    Parameters
    ----------
    point
        Seconds, finite, at least 1.
    levels
        Nominal levels of the quantiles, in (0, 1), ascending.
    quantiles
        Seconds, one a level, at least 1, not descending.
    basis
        What it rests on in words, for people; nothing may be steered by it.
    grounds
        The same as one of a few kinds, for code.

    Examples
    --------
    >>> Prediction(600.0, (0.5, 0.9), (600.0, 1500.0), "two jobs of this user", Grounds.OWN_HISTORY).quantiles[1]
    1500.0
    """

    point: float
    levels: tuple[float, ...] = ()
    quantiles: tuple[float, ...] = ()
    basis: str = ""
    grounds: Grounds = Grounds.UNSTATED


@runtime_checkable
class Distribution(Protocol):
    """All that a method knows of one job's value, for callers that need more than a few quantiles."""

    def chance(self, span: float) -> float:
        """The chance that the value is above `span` seconds, in [0, 1]; NaN where nothing is known."""

    def given(self, elapsed: float) -> Distribution:
        """The same for a job of which it is known that the value is above `elapsed` seconds."""


@runtime_checkable
class Predictor(Protocol):
    """Asked once per job at its submission, taught by events; it never sees a record before its end.

    `predict` is pure: it changes nothing and may be skipped for jobs nobody scores; at that moment the job itself is
    not yet in the state, earlier jobs of the same instant are. `observe` receives every event right after the state
    took it in.

    Notes
    -----
    Optional members: `uses`, the columns it reads, which the gate checks (predict/gate.py); `target`, the column it
    forecasts (`run_time` where it says nothing, or `wait_time`); `refit(now)` with `refit_every_jobs` (submissions) or
    `refit_every_s` (seconds of the log's clock), called by the clock before the submission at which it falls due;
    `fitting`, a fit that `refit` has begun (`begin(run)`), which a live clock has worked out beside;
    `revise(job, elapsed, at)` for a new plan when a running job outlived its own; `distribution(job, at)` for a
    `Distribution`; `falls_back_to`, the method that answers where `grounds` is `Grounds.FALLBACK`;
    `holds_entries`, true where jobs are kept by their entry in the state, which then forgets none that left;
    `predict_trace(trace, protocol, procs)` for a batch path that gives the very numbers of the one-by-one path.

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


FOR_PEOPLE = {"requested": "users' limits", "actual": "perfect knowledge"}
"""Methods that are no forecasts: what users ask for, and the run times themselves, which nobody has beforehand."""


def name_and_settings(spec: str) -> tuple[str, str]:
    """The name of `NAME:key=value,...`, with its class where it is a module's, and what follows it.

    >>> name_and_settings("last_2:need=2"), name_and_settings("my.methods:Mine:k=3")
    (('last_2', 'need=2'), ('my.methods:Mine', 'k=3'))
    """
    name, _, rest = spec.partition(":")
    attribute, _, settings = rest.partition(":")
    if attribute.isidentifier() and all(part.isidentifier() for part in name.split(".")):
        return f"{name}:{attribute}", settings
    return name, rest


def method_name(spec: str) -> str:
    """A method's name for people, without its settings.

    >>> method_name("requested"), method_name("forecast:window=1000,first=500"), method_name("squeue --start")
    ("users' limits", 'forecast', 'squeue --start')
    """
    name = name_and_settings(spec)[0]
    return FOR_PEOPLE.get(name, name)


def named(spec: str) -> str:
    """The same with its settings, for tables where two may differ in nothing else.

    >>> named("actual"), named("kernel:k=5")
    ('perfect knowledge', 'kernel:k=5')
    """
    return FOR_PEOPLE.get(name_and_settings(spec)[0], spec)


def is_of_job(given: object) -> bool:
    """Whether it is a function that forecasts by itself: its first parameter is called `job`.

    >>> is_of_job(lambda job: job.req_time), is_of_job(lambda job, at: 60.0), is_of_job(lambda log: None)
    (True, True, False)
    """
    from inspect import isroutine, signature

    try:
        return isroutine(given) and next(iter(signature(given).parameters), "") == "job"
    except ValueError:  # written in C, without a signature
        return False
