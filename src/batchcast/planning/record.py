# SPDX-License-Identifier: Apache-2.0
"""The state on which planning decides: the site in one cycle, the record of a job, who set the visible limit. Pure.

Every planned limit keeps the invariant `least_limit`. The list that restores limits at a start has one line per job for
`units/batchcast-start`: id, planned limit as in `scontrol show job`, user's limit in minutes. The script changes a
limit only if the planned limit still holds, so an outdated list does nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from ..formats.slurm.plannable import Plannable

NOBODY: frozenset[str] = frozenset()
SETTLED_S = 600.0
"""What planning has given back is remembered this long, because a killed slurmctld may bring the old value back."""
ORDER_RECORD = "plan_order"
"""Key in the store for a cluster's factors."""


class How(StrEnum):
    """What is set on a waiting job so that Slurm plans with less than its limit."""

    LIMIT = "limit"
    """The limit itself, which is restored when the job has started."""
    TIME_MIN = "time-min"
    """--time-min: when Slurm starts the job by backfill, it lowers the limit to this at the lowest."""


class Terms(NamedTuple):
    """Facts and settings of one cycle. Seconds; instants since the epoch.

    `stopped` is the reason why no planned limit may be applied now; empty if there is none. `over_time` and `longest`
    are OverTimeLimit and MaxTime by partition, `defaults` the limits of jobs that name none. `walls` are the longest
    limits that accounting enforces, by ("qos", name) and ("user", account, user). `margin` is how late a cycle may be.
    `least` is the shortest limit that is set. `how` is what planning sets: the limit, or --time-min. `comments`:
    whether AdminComment may be written. `booted` is when slurmctld started: it may have lost changes from shortly
    before. For `grace` seconds after an entry, its change may still arrive. All jobs of `partitions` and `qos` opted
    in, `percent` of them by `seed`. `at_start`: whether our script restores limits as jobs start (`start_list`); a job
    that started with its user's limit then got it from us.
    """

    now: float
    over_time: Mapping[str, float]
    longest: Mapping[str, float]
    stopped: str = ""
    walls: Mapping[tuple[str, ...], float] = {}
    next_outage: float = math.inf
    margin: float = 60.0
    least: float = 60.0
    booted: float = -math.inf
    grace: float = 60.0
    partitions: frozenset[str] = NOBODY
    qos: frozenset[str] = NOBODY
    percent: float = 100.0
    seed: int = 0
    how: How = How.LIMIT
    comments: bool = False
    defaults: Mapping[str, float] = {}
    at_start: bool = False


def least_limit(user_limit: float, partitions: Sequence[str], over_time: Mapping[str, float]) -> float:
    """Return the shortest limit with which Slurm alone cannot end a job before its user's limit.

    Slurm ends a job after TimeLimit + OverTimeLimit. With at least user_limit - OverTimeLimit the job can run for its
    user's limit, even if the agent or slurmctld fails. Of several partitions the smallest OverTimeLimit counts; in an
    unknown partition no shorter limit is allowed.

    >>> least_limit(7200.0, ["main", "long"], {"main": 1800.0, "long": 3600.0})
    5400.0
    >>> least_limit(7200.0, ["other"], {"main": 1800.0})
    7200.0
    """
    return user_limit - min((over_time.get(name, 0.0) for name in partitions), default=0.0)


def in_minutes(seconds: float) -> float:
    """Round up to whole minutes, Slurm's unit of limits, in seconds.

    >>> in_minutes(61.0), in_minutes(120.0)
    (120.0, 120.0)
    """
    return math.ceil(seconds / 60.0 - 1e-9) * 60.0


def opted_in(settings: Any, now: float, stop: str) -> Terms:
    """Return only the parts of the terms about opt-in, which predictions in comments need."""
    return Terms(
        now=now,
        over_time={},
        longest={},
        stopped=stop,
        partitions=names_in(settings["plan_partitions"]),
        qos=names_in(settings["plan_qos"]),
        percent=settings["plan_percent"],
        seed=settings["plan_seed"],
    )


def names_in(text: str) -> frozenset[str]:
    return frozenset(filter(None, (name.strip() for name in text.split(","))))


class State(StrEnum):
    """The known progress of a change of a limit. Each state is written before the next step."""

    INTENDED = "intended"
    """The planned limit is about to be set."""
    PLANNED = "planned"
    """The planned limit was read back."""
    RESTORING = "restoring"
    """The user's limit is about to be restored."""
    RESTORED = "restored"
    """The user's limit was read back."""
    ENDED = "ended"
    """The job ended before its limit was restored; a requeue may bring it back with the planned limit."""
    YIELDING = "yielding"
    """Somebody else changed the limit while our --time-min was set, which is about to be removed."""
    FOREIGN = "foreign"
    """Somebody else changed the limit; the job is not planned again."""


GIVEN_BACK = frozenset({State.RESTORED, State.FOREIGN})
"""States in which a job has no planned limit or factor left. ENDED is not among them: a requeue may restart the job."""


class Entry(NamedTuple):
    """The last change of one job. Seconds; `at` is when the state was written (epoch).

    `planned` is the limit or, by `how`, the --time-min that was set.
    """

    job_id: str
    submit_time: float
    user_limit: float
    planned: float
    state: State
    at: float
    how: How = How.LIMIT


@dataclass(slots=True)
class Quiet:
    """Whether planning that is off needs no calls: a cycle found everything restored, and slurmctld has not restarted
    since.

    `booted` is when slurmctld started (epoch, s; NaN: unknown, and every cycle checks), `since` is when that cycle was.

    >>> quiet = Quiet()
    >>> quiet.note(True, 100.0, 500.0)
    >>> [quiet.holds(booted) for booted in (100.0, 510.0, math.nan)], quiet.is_settled(1100.0)
    ([True, False, False], True)
    """

    booted: float = math.nan
    since: float = math.inf

    def note(self, is_given_back: bool, booted: float, now: float) -> None:
        """Remember whether a cycle found that nothing was left to restore."""
        self.booted, self.since = (booted, now) if is_given_back else (math.nan, math.inf)

    def holds(self, booted: float) -> bool:
        """Return whether the slurmctld that started at `booted` is the slurmctld that was queried."""
        return booted == self.booted

    def is_settled(self, now: float) -> bool:
        """Return whether the record of what was given back may be deleted."""
        return now - self.since >= SETTLED_S


class Owner(StrEnum):
    """Who set a limit."""

    OURS = "ours"
    USERS = "the user's"
    ANOTHERS = "another's"


def owner_of(job: Plannable, entry: Entry, terms: Terms) -> Owner:
    """Return who set the limit that Slurm shows for a job with an entry.

    The entry has two limits: the user's and the planned one. Somebody else set a limit that is neither of them.
    Somebody else also set one of the two if Slurm showed the other one at the last look, unless slurmctld has started
    since (a killed slurmctld loses its latest changes) or one of our changes may still arrive.

    >>> job = Plannable("7", "7", 0.0, begun=False, waits=True, limit=600.0)
    >>> entry, terms = Entry("7", 0.0, 1200.0, 600.0, State.PLANNED, 0.0), Terms(1000.0, {}, {})
    >>> [str(owner_of(job._replace(limit=limit), entry, terms)) for limit in (600.0, 1200.0, 900.0)]
    ['ours', "another's", "another's"]
    """
    stands = _stands_by_time_min(job, entry) if entry.how is How.TIME_MIN else _stands(job, entry)
    if entry.state is State.FOREIGN or stands is None:
        return Owner.ANOTHERS
    unsure = terms.booted >= entry.at - terms.grace or terms.now - entry.at <= terms.grace
    if entry.state is _undone(job, entry, stands, terms.at_start) and not unsure:
        return Owner.ANOTHERS
    return Owner.OURS if stands else Owner.USERS


def _undone(job: Plannable, entry: Entry, stands: bool, at_start: bool) -> State | None:
    """Return the read-back state that contradicts what is seen now, so that somebody must have changed it."""
    if entry.how is How.TIME_MIN:
        if stands and job.submit_time != entry.submit_time:
            return None  # a requeued job, with the --time-min that a running job keeps
        if not stands and job.begun:
            return None  # Slurm need not have lowered the limit
    if at_start and not stands and (job.begun or job.submit_time != entry.submit_time):
        return None  # restored as it started
    return State.RESTORED if stands else State.PLANNED


def _stands(job: Plannable, entry: Entry) -> bool | None:
    """Return whether the planned limit holds; None if neither limit does."""
    return job.limit == entry.planned if job.limit in (entry.planned, entry.user_limit) else None


def _stands_by_time_min(job: Plannable, entry: Entry) -> bool | None:
    """Return the same for --time-min: a job that started, or was requeued, may have any limit above it.

    A running job keeps its --time-min, which has no effect; it cannot be removed before a requeue.

    >>> entry = Entry("7", 0.0, 1200.0, 600.0, State.PLANNED, 0.0, How.TIME_MIN)
    >>> job = Plannable("7", "7", 0.0, begun=True, waits=False, limit=900.0, time_min=600.0)
    >>> waits = job._replace(begun=False, waits=True)
    >>> shown = (job, job._replace(limit=1200.0), waits, waits._replace(limit=1200.0))
    >>> [_stands_by_time_min(one, entry) for one in shown]
    [True, False, None, True]
    """
    if job.time_min not in (0.0, entry.planned):
        return None
    ours, lowered = job.time_min == entry.planned, entry.planned <= job.limit < entry.user_limit
    if job.limit != entry.user_limit and not (lowered and ours):
        return None
    if job.begun:
        return lowered
    if lowered and job.submit_time == entry.submit_time:
        return None  # Slurm lowers limits of jobs that start
    return ours


MAY_STAND = (State.INTENDED, State.PLANNED, State.RESTORING)


def start_list(entries: Iterable[Entry]) -> str:
    """Return the lines in order of ids, without jobs planned by --time-min, whose limits Slurm itself lowers.

    >>> entries = [Entry("7_3", 0.0, 7200.0, 5400.0, state, 0.0) for state in (State.PLANNED, State.RESTORED)]
    >>> start_list([*entries, Entry("12", 0.0, 180000.0, 90000.0, State.INTENDED, 0.0)]).splitlines()
    ['12 1-01:00:00 3000', '7_3 01:30:00 120']
    """
    rows = sorted((e for e in entries if e.state in MAY_STAND and e.how is How.LIMIT), key=lambda e: e.job_id)
    return "".join(f"{e.job_id} {_as_slurm(e.planned)} {e.user_limit / 60:.0f}\n" for e in rows)


def _as_slurm(limit: float) -> str:
    """Return a limit as Slurm shows it: [days-]hours:minutes:seconds.

    >>> _as_slurm(60.0), _as_slurm(86400.0)
    ('00:01:00', '1-00:00:00')
    """
    days, rest = divmod(round(limit), 86400)
    return (f"{days}-" if days else "") + f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"


@dataclass(slots=True)
class CycleOutcome:
    """What one cycle of planning did, and how many jobs have a planned limit after it.

    Of the order: factors that were set (`ordered`) and restored (`returned`), records that have one (`placed`).
    """

    planned: int = 0
    restored: int = 0
    standing: int = 0
    commented: int = 0
    ordered: int = 0
    returned: int = 0
    placed: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Planned, restored, standing."""
        return self.planned, self.restored, self.standing
