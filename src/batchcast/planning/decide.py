# SPDX-License-Identifier: Apache-2.0
"""From what was seen and the record to what is to be done. Nothing here does it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from ..formats.slurm.plannable import Plannable
from .eligibility import PLANNED_BY_ANOTHER, planned_by_another, why_ineligible
from .record import Entry, Owner, State, owner_of
from .terms import How, Terms, in_minutes, least_limit

Forecast = Callable[[Plannable], "float | str"]
"""The time to plan a job with, in seconds, or why there is none, in words."""
Signal = Callable[[Plannable], str]
"""Why a job's submission rules out planning it, a --signal say; empty where it does not."""


class Action(NamedTuple):
    """One thing to do: set a planned limit, restore the user's, or only write what became of an entry.

    `entry` is the record as it must stand before the limit is set, or, of a note, from now on.
    """

    what: Literal["plan", "restore", "note"]
    job: Plannable
    entry: Entry
    why: str

    @property
    def limit(self) -> float:
        """The limit that holds afterwards, or the --time-min that is planned with, in seconds."""
        return self.entry.planned if self.what == "plan" else self.entry.user_limit

    @property
    def how(self) -> How:
        """What that is: the limit, except where --time-min is being planned with."""
        return self.entry.how if self.what == "plan" else How.LIMIT

    @property
    def done(self) -> State:
        """The entry's state once Slurm shows what was asked for."""
        if self.what == "plan":
            return State.PLANNED
        return State.FOREIGN if self.entry.state is State.YIELDING else State.RESTORED


def verdict(job: Plannable, terms: Terms, forecast: Forecast, signal: Signal) -> tuple[float, str]:
    """The limit to plan a waiting job with, which stands at its user's limit, and why; NaN where it is left alone.

    Never below `least_limit`, nor below `terms.least`; always below the user's limit.
    """
    if why := why_ineligible(job, terms) or (PLANNED_BY_ANOTHER if planned_by_another(job) else ""):
        return math.nan, why
    needs = forecast(job)
    if isinstance(needs, str):
        return math.nan, needs
    least = max(least_limit(job.limit, job.partitions, terms.over_time), terms.least)
    planned = in_minutes(max(needs, least))
    if not planned < job.limit:
        return math.nan, "its forecast leaves nothing to plan with" if needs >= least else "its limit is short already"
    if why := signal(job):
        return math.nan, why
    return planned, "forecast" if needs >= least else "forecast, kept to what OverTimeLimit covers"


def decide(
    jobs: Sequence[Plannable], record: Mapping[str, Entry], terms: Terms, forecast: Forecast, signal: Signal
) -> list[Action]:
    """What to do now, what is restored first, of that what has started.

    Only jobs that are shown are decided on. Tasks of an array that wait together have one limit in Slurm: they are
    planned together, by the longest of their times, or not at all. O(jobs).
    """
    actions: list[Action] = []
    free: list[Plannable] = []
    for job in jobs:
        entry = record.get(job.job_id)
        if entry is None:
            free += [job] if job.waits else []
            continue
        action = _follow(job, entry, terms)
        if action is not None:
            actions.append(action)
        if job.waits and (action is None or action.what == "note") and owner_of(job, entry, terms) is Owner.USERS:
            free.append(job)
    actions.sort(key=lambda a: (a.what != "restore", not a.job.begun))
    return actions + _plans(free, record, jobs, terms, forecast, signal)


def _follow(job: Plannable, entry: Entry, terms: Terms) -> Action | None:
    """What to do about a job that has an entry."""
    if job.finished and entry.state in (State.INTENDED, State.PLANNED, State.RESTORING):
        return _note(job, entry, State.ENDED, terms, "it was over before the next look")
    if not (job.begun or job.waits):
        return None
    why = "somebody else changed its limit"
    if entry.state is State.YIELDING:
        return _yield(job, entry, terms, why)
    mine = owner_of(job, entry, terms)
    by_start = entry.how is How.TIME_MIN and job.begun
    if by_start and mine is not Owner.ANOTHERS:
        entry = entry._replace(submit_time=job.submit_time)  # its --time-min comes along at each requeue
    if mine is Owner.ANOTHERS:
        if entry.how is How.TIME_MIN and job.waits and job.time_min == entry.planned:
            return _yield(job, entry, terms, why)
        return None if entry.state is State.FOREIGN else _note(job, entry, State.FOREIGN, terms, why)
    if mine is Owner.USERS:
        back = entry.state in (State.PLANNED, State.RESTORING) or (by_start and entry.state is State.INTENDED)
        return _note(job, entry, State.RESTORED, terms, "its user's limit was seen") if back else None
    if why := _why_restore(job, entry, terms):
        return Action("restore", job, entry._replace(state=State.RESTORING, at=terms.now), why)
    if entry.state is not State.PLANNED:
        return _note(job, entry, State.PLANNED, terms, "its planned limit was seen")
    return None


def _yield(job: Plannable, entry: Entry, terms: Terms, why: str) -> Action:
    """Take our --time-min from a job whose limit is somebody else's now: Slurm would lower that limit as well."""
    lowered = job.begun and entry.planned <= job.limit < entry.user_limit
    if job.time_min != entry.planned or (job.begun and not lowered):
        return _note(job, entry, State.FOREIGN, terms, why)
    theirs = entry.user_limit if lowered else job.limit
    return Action("restore", job, entry._replace(user_limit=theirs, state=State.YIELDING, at=terms.now), why)


def _note(job: Plannable, entry: Entry, state: State, terms: Terms, why: str) -> Action:
    return Action("note", job, entry._replace(state=state, at=terms.now), why)


def _why_restore(job: Plannable, entry: Entry, terms: Terms) -> str:
    """Why a planned limit cannot stand any longer; empty where it can."""
    if job.begun:
        return "it has started"
    if job.submit_time != entry.submit_time:
        return "it was requeued"
    if entry.how is not terms.how:
        return f"planning is by {terms.how} now"
    if entry.planned < least_limit(entry.user_limit, job.partitions, terms.over_time):
        return "OverTimeLimit no longer covers it"
    return why_ineligible(job._replace(limit=entry.user_limit, time_min=0.0), terms)


def _plans(
    free: Iterable[Plannable],
    record: Mapping[str, Entry],
    jobs: Sequence[Plannable],
    terms: Terms,
    forecast: Forecast,
    signal: Signal,
) -> list[Action]:
    """New planned limits, for whole groups that share one record in slurmctld."""
    size: dict[str, int] = {}
    for job in jobs:
        if job.waits:
            size[job.raw_id] = size.get(job.raw_id, 0) + 1
    groups: dict[str, list[Plannable]] = {}
    for job in free:
        groups.setdefault(job.raw_id, []).append(job)
    actions = []
    for raw_id, group in groups.items():
        if len(group) < size[raw_id]:
            continue  # some of its tasks are somebody else's now
        verdicts = [verdict(job, terms, forecast, signal) for job in group]
        planned = max(limit for limit, _ in verdicts) if not any(math.isnan(v) for v, _ in verdicts) else math.nan
        if math.isnan(planned):
            continue
        for job, (_, why) in zip(group, verdicts):
            entry = Entry(job.job_id, job.submit_time, job.limit, planned, State.INTENDED, terms.now, terms.how)
            actions.append(Action("plan", job, entry, why))
    return actions
