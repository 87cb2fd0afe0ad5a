# SPDX-License-Identifier: Apache-2.0
"""The state that planning decides by: the site in one cycle, the record of a job, whose limit Slurm shows. Pure.

The invariant that every planned limit keeps is `least_limit`. The list that gives limits back at a start has one line
a job, as `units/batchcast-start` reads it: its id, the planned limit as `scontrol show job` writes it, the user's in
minutes. The script changes a limit only where the planned one still holds: a list that is out of date does nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from ..formats.slurm.plannable import Plannable

NOBODY: frozenset[str] = frozenset()
ORDER_RECORD = "plan_order"
"""The name of what the store remembers of a cluster's factors."""


class How(StrEnum):
    """What is set of a waiting job so that Slurm plans with less than its limit."""

    LIMIT = "limit"
    """The limit itself; it is given back when the job has started."""
    TIME_MIN = "time-min"
    """--time-min: when Slurm starts the job by backfill it lowers the limit, down to this at the most."""


class Terms(NamedTuple):
    """What holds at one look. Seconds; instants since the epoch.

    `stopped` says why nothing may stand on a planned limit now; empty: planning goes on. `over_time` and `longest`
    are OverTimeLimit and MaxTime by partition, `defaults` the limits of jobs that name none. `walls` are the longest
    limits that accounting enforces, by ("qos", name) and ("user", account, user). `margin` is how long a look may be
    late. `least` is the shortest limit that is set. `how` is what is set: the limit, or --time-min. `comments`:
    AdminComment may be written, a record beside ours. `booted` is when slurmctld started: what it was told shortly
    before, it may have forgotten. Within `grace` of an entry a change that is on its way may still arrive.
    `partitions` and `qos` are opted in as a whole, `percent` of their jobs by `seed`. `at_start`: a script of ours
    gives limits back as jobs start (`start_list`), so a job that has started with its user's limit has it from us.
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
    """The shortest limit under which Slurm alone cannot end a job before its user's limit.

    Slurm ends a job when it has run for TimeLimit + OverTimeLimit. So with a limit of at least user_limit -
    OverTimeLimit it runs for its user's limit whatever becomes of the agent and of slurmctld. Of several partitions the
    least counts; of one that is not known nothing is allowed.

    >>> least_limit(7200.0, ["main", "long"], {"main": 1800.0, "long": 3600.0})
    5400.0
    >>> least_limit(7200.0, ["other"], {"main": 1800.0})
    7200.0
    """
    return user_limit - min((over_time.get(name, 0.0) for name in partitions), default=0.0)


def in_minutes(seconds: float) -> float:
    """Rounded up to whole minutes, Slurm's unit of limits, in seconds.

    >>> in_minutes(61.0), in_minutes(120.0)
    (120.0, 120.0)
    """
    return math.ceil(seconds / 60.0 - 1e-9) * 60.0


def opted_in(settings: Any, now: float, stop: str) -> Terms:
    """Of the terms only whose jobs these are: what advice in comments goes by."""
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
    """How far a change of a job's limit is known to have come. Each is written before what follows it is done."""

    INTENDED = "intended"
    """The planned limit is about to be set."""
    PLANNED = "planned"
    """It was read back."""
    RESTORING = "restoring"
    """The user's limit is about to be set."""
    RESTORED = "restored"
    """It was read back."""
    ENDED = "ended"
    """The job was seen to be over before its user's limit was; a requeue may bring it back at its planned limit."""
    YIELDING = "yielding"
    """Somebody else changed the limit while our --time-min stood: that is about to be taken away."""
    FOREIGN = "foreign"
    """Somebody else changed the limit: it is theirs, and the job is not planned again."""


class Entry(NamedTuple):
    """One job's entry: what was changed last. Seconds; `at` is when the state was written (epoch).

    `planned` is the limit that was set, or, by `how`, the --time-min.
    """

    job_id: str
    submit_time: float
    user_limit: float
    planned: float
    state: State
    at: float
    how: How = How.LIMIT


class Owner(StrEnum):
    """Whose a limit is."""

    OURS = "ours"
    USERS = "the user's"
    ANOTHERS = "another's"


def owner_of(job: Plannable, entry: Entry, terms: Terms) -> Owner:
    """Whose the limit is that Slurm shows of a job with an entry.

    A limit that is not recorded is somebody else's. So is one that is, where the other was read back last, unless
    slurmctld was started since (killed, it forgets what it was told last) or a change is still on its way.

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
    """The state in which what is seen now had been read back otherwise, so that somebody must have changed it."""
    if entry.how is How.TIME_MIN:
        if stands and job.submit_time != entry.submit_time:
            return None  # requeued with the --time-min that a running job keeps
        if not stands and job.begun:
            return None  # Slurm need not have lowered the limit
    if at_start and not stands and (job.begun or job.submit_time != entry.submit_time):
        return None  # given back as it started
    return State.RESTORED if stands else State.PLANNED


def _stands(job: Plannable, entry: Entry) -> bool | None:
    """Whether the planned limit holds; None where neither of the two does."""
    return job.limit == entry.planned if job.limit in (entry.planned, entry.user_limit) else None


def _stands_by_time_min(job: Plannable, entry: Entry) -> bool | None:
    """The same where --time-min was set: a job that started, or was requeued, may have any limit from there on.

    A running job keeps its --time-min, which then does nothing; nobody can take it away before a requeue.

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
    """The lines, in order of the ids; jobs planned by --time-min are not among them, whose limit Slurm itself lowers.

    >>> entries = [Entry("7_3", 0.0, 7200.0, 5400.0, state, 0.0) for state in (State.PLANNED, State.RESTORED)]
    >>> start_list([*entries, Entry("12", 0.0, 180000.0, 90000.0, State.INTENDED, 0.0)]).splitlines()
    ['12 1-01:00:00 3000', '7_3 01:30:00 120']
    """
    rows = sorted((e for e in entries if e.state in MAY_STAND and e.how is How.LIMIT), key=lambda e: e.job_id)
    return "".join(f"{e.job_id} {_as_slurm(e.planned)} {e.user_limit / 60:.0f}\n" for e in rows)


def _as_slurm(limit: float) -> str:
    """A limit as Slurm shows it: [days-]hours:minutes:seconds.

    >>> _as_slurm(60.0), _as_slurm(86400.0)
    ('00:01:00', '1-00:00:00')
    """
    days, rest = divmod(round(limit), 86400)
    return (f"{days}-" if days else "") + f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"


@dataclass(slots=True)
class CycleOutcome:
    """What one cycle of planning did, and how many jobs stand on a planned limit after it.

    Of the order: factors that were set (`ordered`) and given back (`returned`), records that stand on one (`placed`).
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
