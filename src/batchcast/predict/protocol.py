# SPDX-License-Identifier: Apache-2.0
"""The protocol of all predictors (run time and wait), and how predictors are named in reports."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

if TYPE_CHECKING:  # code that reads a stored Prediction must not import events and numpy
    import numpy as np

    from ..events.event import Event
    from ..events.state import SystemState
    from ..job import JobRequest

SHORTEST = 1.0


class Grounds(StrEnum):
    """The kind of evidence that a prediction is based on, for use by code.

    The enum's values are text, so that the store can save them.

    >>> Grounds("class") is Grounds.CLASS
    True
    """

    UNSTATED = "unstated"
    NO_HISTORY = "no_history"
    """There is no history; the predicted number is a placeholder and must not be shown to users."""
    LIMIT = "limit"
    """The user's time limit, or a replacement for a missing time limit."""
    OWN_HISTORY = "own_history"
    """Finished jobs of the same user."""
    CLASS = "class"
    """Finished jobs that agree on some columns."""
    EVERYONE = "everyone"
    """All finished jobs together."""
    MODEL = "model"
    """A model or distribution fitted to finished jobs."""
    SIMULATION = "simulation"
    """A forward simulation of the schedule."""
    FALLBACK = "fallback"
    """Another predictor made the prediction; the attribute `falls_back_to` is its name."""
    SCHEDULER = "scheduler"
    """The batch system's own estimate."""
    ORACLE = "oracle"
    """The true value, which is not known beforehand."""


class Prediction(msgspec.Struct, frozen=True, gc=False):
    """A prediction: a point, quantiles, and their basis. The prediction is immutable; `msgspec.structs.replace` returns
    a changed copy.

    Parameters
    ----------
    point
        Predicted value in seconds, finite, at least 1.
    levels
        Probabilities of the quantiles, in (0, 1), ascending.
    quantiles
        Quantiles in seconds, one per level, at least 1, not descending.
    basis
        The evidence that the prediction is based on, in words for people. Code must not depend on the text of the
        basis.
    grounds
        The evidence that the prediction is based on, as one of a few kinds, for code.

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
    """Full distribution of a job's predicted value, for callers that need more than a few quantiles."""

    def chance(self, span: float) -> float:
        """Return the probability, in [0, 1], that the value exceeds `span` seconds; NaN if unknown."""

    def given(self, elapsed: float) -> Distribution:
        """Return the conditional distribution for a job whose value exceeds `elapsed` seconds."""


@runtime_checkable
class Predictor(Protocol):
    """Predicts a job's value at its submission and learns from events; it never sees a job's outcome before its end.

    `predict` must not change the predictor, and may be skipped for jobs that are not scored. When `predict` is called,
    the state contains earlier submissions of the same instant, but not the job itself. `observe` receives every event
    right after the state has been updated with it.

    Notes
    -----
    Optional members:

    - `uses`: the columns that the predictor reads; predict/gate.py checks that they are known at submission.
    - `target`: the column that the predictor predicts, `run_time` (default) or `wait_time`.
    - `refit(now)` with `refit_every_jobs` (submissions) or `refit_every_s` (seconds of the log's clock): called by the
      clock before the submission at which a refit is due.
    - `fitting`: a fit that `refit` has prepared; a live clock calls `fitting.begin(run)` to compute it in a background
      process.
    - `revise(job, elapsed, at)`: a new prediction for a running job that has exceeded its prediction.
    - `distribution(job, at)`: the full `Distribution`.
    - `falls_back_to`: name of the predictor whose prediction is returned if `grounds` is `Grounds.FALLBACK`.
    - `holds_entries`: true if the predictor refers to jobs by their entry in the state; the state then keeps the
      entries of jobs that have left.
    - `predict_trace(trace, protocol, procs)`: predicts a whole log, with exactly the numbers of `predict` and
      `observe`.

    >>> class Hour:
    ...     def predict(self, job, at):
    ...         return Prediction(3600.0)
    ...     def observe(self, event, at):
    ...         pass
    >>> isinstance(Hour(), Predictor)
    True
    """

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Predict the job's value; the job is submitted now (`at.now`)."""

    def observe(self, event: Event, at: SystemState) -> None:
        """Learn from an event of a job: Submit, Start, End or Withdraw."""


class QuickMarks(NamedTuple):
    """Quick starters that a wait method marked in the last log that it predicted: arrays of shape (n,), one value per
    job.

    Parameters
    ----------
    quick
        Whether the job is marked as a quick starter, boolean.
    near
        Whether the mark rests on the waits of the latest similar jobs alone, boolean.
    near_jobs
        Number of the latest similar jobs.
    has_waits
        Whether the method also predicts waits of unmarked jobs. If not, their predictions are placeholders.
    """

    quick: np.ndarray
    near: np.ndarray
    near_jobs: np.ndarray
    has_waits: bool


class WaitMethod(Predictor, Protocol):
    """A wait predictor with all its optional members. A method sets the members that differ from the values here;
    `wait_option` reads them.

    Attributes
    ----------
    protocol
        The order of events at one instant in which the method is evaluated unless the user chooses an order.
    answers_by
        Whether the method answers with its point prediction or with its highest quantile, the `bound`. A job counts as
        a quick starter if the answer is at most the threshold.
    chances
        The probability that each job of the last predicted log has started by the end of each bin of
        `predict.hazard.bins`, shape (n, bins).
    marks
        Quick starters of the last predicted log, if the method decides which jobs are quick starters and does not
        compare a predicted wait with the threshold.
    search_s
        CPU seconds of a search for settings over the whole log, which the time per prediction excludes. None: the
        method does not search, so it can also run period by period.
    remark
        A sentence below the table of results, such as a warning about a setting.
    """

    protocol: str = "honest"
    answers_by: Literal["point", "bound"] = "point"
    chances: np.ndarray | None = None
    marks: QuickMarks | None = None
    search_s: float | None = None
    remark: str = ""


def wait_option(method: object, name: str) -> Any:
    """Return an optional member of a wait method, or the default in `WaitMethod` if the method does not have it.

    >>> wait_option(object(), "answers_by")
    'point'
    """
    return getattr(method, name, getattr(WaitMethod, name))


def at_least_a_second(seconds: float, limit: float = float("nan")) -> float:
    """Limit a prediction to at least one second and at most the user's time limit, if the limit is known.

    >>> at_least_a_second(0.0), at_least_a_second(500.0, limit=300.0)
    (1.0, 300.0)
    """
    capped = min(seconds, limit) if limit == limit else seconds
    return capped if capped > SHORTEST else SHORTEST


REFITTED = ("refit_every_jobs", "refit_every_s", "refit")
"""Members by which a clock refits a predictor."""


def pass_on(inner: object, wrapper: object, *names: str) -> None:
    """Set the named members that a wrapped predictor has on its wrapper too.

    >>> class Wrapper: pass
    >>> pass_on(6j, Wrapper, "imag", "refit")
    >>> Wrapper.imag, hasattr(Wrapper, "refit")
    (6.0, False)
    """
    for name in names:
        if hasattr(inner, name):
            setattr(wrapper, name, getattr(inner, name))


FOR_PEOPLE = {"requested": "users' limits", "actual": "perfect knowledge"}
"""Plain names of methods that do not predict: users' time limits, and the true run times (unknown beforehand)."""


def name_and_settings(spec: str) -> tuple[str, str]:
    """Split `NAME:key=value,...` into name and settings; MODULE:CLASS counts as the name.

    >>> name_and_settings("last_2:need=2"), name_and_settings("my.methods:Mine:k=3")
    (('last_2', 'need=2'), ('my.methods:Mine', 'k=3'))
    """
    name, _, rest = spec.partition(":")
    attribute, _, settings = rest.partition(":")
    if attribute.isidentifier() and all(part.isidentifier() for part in name.split(".")):
        return f"{name}:{attribute}", settings
    return name, rest


def method_name(spec: str) -> str:
    """Return the name of a predictor that reports show, without the predictor's settings.

    >>> method_name("requested"), method_name("forecast:window=1000,first=500"), method_name("squeue --start")
    ("users' limits", 'forecast', 'squeue --start')
    """
    name = name_and_settings(spec)[0]
    return FOR_PEOPLE.get(name, name)


def spec_words(spec: str) -> str:
    """Return the name of a predictor that reports show, with its settings; for tables of several settings.

    >>> spec_words("actual"), spec_words("kernel:k=5")
    ('perfect knowledge', 'kernel:k=5')
    """
    return FOR_PEOPLE.get(name_and_settings(spec)[0], spec)


def is_of_job(function: object) -> bool:
    """Return whether the object is a function whose first parameter is called `job`; such a function is used as a
    predictor.

    >>> is_of_job(lambda job: job.req_time), is_of_job(lambda job, at: 60.0), is_of_job(lambda log: None)
    (True, True, False)
    """
    from inspect import isroutine, signature

    try:
        return isroutine(function) and next(iter(signature(function).parameters), "") == "job"
    except ValueError:  # functions written in C may have no signature
        return False
