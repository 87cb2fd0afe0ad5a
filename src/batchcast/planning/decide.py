"""From what was seen and the record to what is to be done. Nothing here does it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from ..formats.plannable import Plannable
from .record import Entry, State, Whose, whose
from .terms import Terms, in_minutes, least_limit
from .untouched import why_untouched

Forecast = Callable[[Plannable], "float | str"]
"""The time to plan a job with, in seconds, or why there is none, in words."""
Signal = Callable[[Plannable], str]
"""Why a job's submission does not rule out a --signal; empty where it does."""


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
        """The limit that Slurm must show afterwards, in seconds."""
        return self.entry.planned if self.what == "plan" else self.entry.user_limit


def verdict(job: Plannable, terms: Terms, forecast: Forecast, signal: Signal) -> tuple[float, str]:
    """The limit to plan a waiting job with, which stands at its user's limit, and why; NaN where it is left alone.

    Never below `least_limit`, nor below `terms.least`; always below the user's limit.
    """
    if why := why_untouched(job, terms):
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
    """What to do now, what is restored first.

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
        if job.waits and (action is None or action.what == "note") and whose(job, entry, terms) is Whose.USERS:
            free.append(job)
    actions.sort(key=lambda a: a.what != "restore")
    return actions + _plans(free, record, jobs, terms, forecast, signal)


def _follow(job: Plannable, entry: Entry, terms: Terms) -> Action | None:
    """What to do about a job that has an entry."""
    if job.finished and entry.state in (State.INTENDED, State.PLANNED, State.RESTORING):
        return _note(job, entry, State.ENDED, terms, "it was over before the next look")
    if not (job.begun or job.waits):
        return None
    mine = whose(job, entry, terms)
    if mine is Whose.ANOTHERS:
        why = "somebody else changed its limit"
        return None if entry.state is State.FOREIGN else _note(job, entry, State.FOREIGN, terms, why)
    if mine is Whose.USERS:
        back = entry.state in (State.PLANNED, State.RESTORING)
        return _note(job, entry, State.RESTORED, terms, "its user's limit was seen") if back else None
    if why := _why_restore(job, entry, terms):
        return Action("restore", job, entry._replace(state=State.RESTORING, at=terms.now), why)
    if entry.state is not State.PLANNED:
        return _note(job, entry, State.PLANNED, terms, "its planned limit was seen")
    return None


def _note(job: Plannable, entry: Entry, state: State, terms: Terms, why: str) -> Action:
    return Action("note", job, entry._replace(state=state, at=terms.now), why)


def _why_restore(job: Plannable, entry: Entry, terms: Terms) -> str:
    """Why a planned limit cannot stand any longer; empty where it can."""
    if job.begun:
        return "it has started"
    if job.submit_time != entry.submit_time:
        return "it was requeued"
    if entry.planned < least_limit(entry.user_limit, job.partitions, terms.over_time):
        return "OverTimeLimit no longer covers it"
    return why_untouched(job._replace(limit=entry.user_limit), terms)


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
            entry = Entry(job.job_id, job.submit_time, job.limit, planned, State.INTENDED, terms.now)
            actions.append(Action("plan", job, entry, why))
    return actions


def targets(actions: Iterable[Action]) -> list[tuple[float, str, list[Action]]]:
    """The updates that carry these out: a limit, the jobs as `scontrol update jobid=` takes them, and their actions.

    Jobs of one limit go together; the tasks of an array that wait together as one list, so that slurmctld need not
    split them.

    >>> def task(k):
    ...     job = Plannable(f"5_{k}", "5", 0.0, begun=False, waits=True, limit=600.0)
    ...     return Action("restore", job, Entry(job.job_id, 0.0, 600.0, 60.0, State.RESTORING, 0.0), "")
    >>> [(limit, name) for limit, name, _ in targets([task(1), task(2), task(4)])]
    [(600.0, '5_[1-2,4]')]
    """
    plain: dict[float, list[Action]] = {}
    arrays: dict[tuple[float, str], list[Action]] = {}
    for one in actions:
        together = one.job.waits and "_" in one.job.job_id and one.job.raw_id == one.job.base
        if together:
            arrays.setdefault((one.limit, one.job.raw_id), []).append(one)
        else:
            plain.setdefault(one.limit, []).append(one)
    updates = [
        (limit, ",".join(a.job.job_id for a in some[k : k + TOGETHER]), some[k : k + TOGETHER])
        for limit, some in plain.items()
        for k in range(0, len(some), TOGETHER)
    ]
    for (limit, base), some in arrays.items():
        numbers = sorted(int(a.job.job_id.partition("_")[2]) for a in some)
        updates.append((limit, f"{base}_[{_ranges(numbers)}]", some))
    return updates


TOGETHER = 50


def _ranges(numbers: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
