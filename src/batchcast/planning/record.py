# SPDX-License-Identifier: Apache-2.0
"""The data for planning decisions: facts about the site, the record of each job, and who set a job's limit. Pure.

Every planned limit is at least `least_limit`. The script `units/batchcast-start` restores limits when jobs start. The
script reads a list with one line per job: id, planned limit as in `scontrol show job`, user's limit in minutes. The
script changes a limit only if the job still has the planned limit, so an outdated list does no harm.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from ..formats.slurm.plannable import Plannable
from ..units import format_duration

SETTLED_S = 600.0
"""Restored limits stay in the record for this many seconds, because a killed slurmctld may bring the old value back."""
ORDER_RECORD = "plan_order"
"""Key in the store under which a cluster's factors are saved."""
ORDER_STATE = "plan_order_state"
"""Key in the store under which is saved what the order has learned."""


class How(StrEnum):
    """Which option of a waiting job batchcast changes so that Slurm schedules the job with less than its time limit."""

    LIMIT = "limit"
    """The limit itself, which is restored when the job has started."""
    TIME_MIN = "time-min"
    """--time-min: if Slurm starts the job by backfill, Slurm may lower the limit down to this value."""


class OrderBy(StrEnum):
    """The times by which the queue is ordered. The words that earlier versions used are still accepted.

    >>> OrderBy("prediction"), OrderBy("limit")
    (<OrderBy.FORECAST: 'forecast'>, <OrderBy.LIMITS: 'limits'>)
    """

    FORECAST = "forecast"
    """Predicted run times."""
    LIMITS = "limits"
    """The users' time limits."""

    @classmethod
    def _missing_(cls, value: object) -> OrderBy | None:
        return {"prediction": cls.FORECAST, "limit": cls.LIMITS}.get(str(value))


class Terms(NamedTuple):
    """Facts about the site and settings for one planning cycle. Durations are in seconds, instants in epoch seconds.

    `stopped` is the reason why no planned limit may be applied now; empty if there is none. `over_time` and `longest`
    are OverTimeLimit and MaxTime by partition, `defaults` are the limits of jobs that request no limit. `walls` are the
    longest time limits that Slurm's accounting enforces, by ("qos", name) and ("user", account, user). `margin` is the
    largest expected delay of a planning cycle. `least` is the shortest time limit that planning sets. `how` says what
    planning sets: the limit, or --time-min. `comments`: whether batchcast may write Slurm's AdminComment. `booted` is
    the instant when slurmctld started; changes from shortly before may be lost. Slurm may apply a change up to `grace`
    seconds after the change's entry was recorded. All jobs of `partitions` and `qos` have opted in; in a trial,
    `percent` % of the jobs are planned, drawn by `seed`. `at_start`: whether batchcast's script restores limits when
    jobs start (`start_list`). If `at_start` is true, a job that runs with its user's limit counts as restored by the
    script.
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
    partitions: frozenset[str] = frozenset()
    qos: frozenset[str] = frozenset()
    percent: float = 100.0
    seed: int = 0
    how: How = How.LIMIT
    comments: bool = False
    defaults: Mapping[str, float] = {}
    at_start: bool = False


def least_limit(user_limit: float, partitions: Sequence[str], over_time: Mapping[str, float]) -> float:
    """Return the shortest planned limit with which Slurm cannot end a job before its user's limit.

    Slurm ends a job after TimeLimit + OverTimeLimit. With a limit of at least user_limit - OverTimeLimit, the job can
    run as long as its user's limit, even if batchcast's planning agent or slurmctld fails. If a job lists several
    partitions, the smallest OverTimeLimit of these partitions counts. If a partition is unknown, no shorter limit is
    allowed.

    >>> least_limit(7200.0, ["main", "long"], {"main": 1800.0, "long": 3600.0})
    5400.0
    >>> least_limit(7200.0, ["other"], {"main": 1800.0})
    7200.0
    """
    return user_limit - min((over_time.get(name, 0.0) for name in partitions), default=0.0)


def in_minutes(seconds: float) -> float:
    """Round seconds up to whole minutes, which are Slurm's unit of limits; the result is in seconds.

    >>> in_minutes(61.0), in_minutes(120.0)
    (120.0, 120.0)
    """
    return math.ceil(seconds / 60.0 - 1e-9) * 60.0


def opted_in(settings: Any, now: float, stop: str) -> Terms:
    """Return Terms with only the settings about opt-in, which are needed to write predictions into comments."""
    partitions, qos = (
        frozenset(filter(None, map(str.strip, settings[name].split(",")))) for name in ("plan_partitions", "plan_qos")
    )
    who = {"partitions": partitions, "qos": qos, "percent": settings["plan_percent"], "seed": settings["plan_seed"]}
    return Terms(now, over_time={}, longest={}, stopped=stop, **who)


class State(StrEnum):
    """The state of batchcast's change of one job's time limit. Each state is stored before the next step of the change
    is taken."""

    INTENDED = "intended"
    """The planned limit is about to be set."""
    PLANNED = "planned"
    """The planned limit was read back."""
    RESTORING = "restoring"
    """The user's limit is about to be restored."""
    RESTORED = "restored"
    """The user's limit was read back."""
    ENDED = "ended"
    """The job ended before its limit was restored; if it is requeued, it still has the planned limit."""
    YIELDING = "yielding"
    """Somebody else changed the limit while our --time-min was set; our --time-min is about to be removed."""
    FOREIGN = "foreign"
    """Somebody else changed the limit; the job is not planned again."""


GIVEN_BACK = frozenset({State.RESTORED, State.FOREIGN})
"""States in which a job no longer has a planned limit or factor. ENDED is not included, because a requeue may
restart the job.
"""


class Entry(NamedTuple):
    """Record of the last change of one job's time limit. Times are in seconds; `at` is the instant when the state was
    stored (epoch).

    `planned` is the limit or the --time-min that was set, according to `how`.
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
    """Records that planning is off and need not query Slurm, because a cycle found all limits restored and slurmctld
    has not restarted.

    `booted` is the start of slurmctld (epoch seconds; if NaN, every cycle checks), `since` the instant of the cycle
    that found all limits restored.

    >>> quiet = Quiet()
    >>> quiet.note(True, 100.0, 500.0)
    >>> [quiet.holds(booted) for booted in (100.0, 510.0, math.nan)], quiet.is_settled(1100.0)
    ([True, False, False], True)
    """

    booted: float = math.nan
    since: float = math.inf

    def note(self, is_given_back: bool, booted: float, now: float) -> None:
        """Record whether a cycle found all limits restored."""
        self.booted, self.since = (booted, now) if is_given_back else (math.nan, math.inf)

    def holds(self, booted: float) -> bool:
        """Return whether the queried slurmctld started at `booted`, so that it has not restarted since."""
        return booted == self.booted

    def is_settled(self, now: float) -> bool:
        """Return whether batchcast may delete the records of restored limits."""
        return now - self.since >= SETTLED_S


class Owner(StrEnum):
    """Who set a job's time limit."""

    OURS = "ours"
    USERS = "the user's"
    ANOTHERS = "another's"


def owner_of(job: Plannable, entry: Entry, terms: Terms) -> Owner:
    """Return who set the limit that Slurm shows for a job with an entry in the record.

    The entry has two limits: the user's and the planned one. If Slurm shows neither of the two limits, somebody else
    set the limit. Somebody else also set the limit if Slurm has switched between the two limits since the last cycle.
    The other limit is no evidence for somebody else if slurmctld has started since (a killed slurmctld loses its latest
    changes), or if one of our changes may still take effect.

    >>> job = Plannable("7", "7", 0.0, has_started=False, waits=True, limit=600.0)
    >>> entry, terms = Entry("7", 0.0, 1200.0, 600.0, State.PLANNED, 0.0), Terms(1000.0, {}, {})
    >>> [str(owner_of(job._replace(limit=limit), entry, terms)) for limit in (600.0, 1200.0, 900.0)]
    ['ours', "another's", "another's"]
    """
    if entry.how is How.TIME_MIN:
        stands = _stands_by_time_min(job, entry)
    else:
        stands = job.limit == entry.planned if job.limit in (entry.planned, entry.user_limit) else None
    if entry.state is State.FOREIGN or stands is None:
        return Owner.ANOTHERS
    unsure = terms.booted >= entry.at - terms.grace or terms.now - entry.at <= terms.grace
    if entry.state is _undone(job, entry, stands, terms.at_start) and not unsure:
        return Owner.ANOTHERS
    return Owner.OURS if stands else Owner.USERS


def _undone(job: Plannable, entry: Entry, stands: bool, at_start: bool) -> State | None:
    """Return the recorded state that contradicts the limit shown now, so that somebody else must have changed the
    limit.
    """
    requeued = job.submit_time != entry.submit_time
    # a requeued job still has the --time-min of its first run; Slurm does not lower the limit of every started job
    if entry.how is How.TIME_MIN and (requeued if stands else job.has_started):
        return None
    if at_start and not stands and (job.has_started or requeued):
        return None  # the start script has restored the limit
    return State.RESTORED if stands else State.PLANNED


def _stands_by_time_min(job: Plannable, entry: Entry) -> bool | None:
    """Return whether the job has the planned --time-min; None if somebody else has changed it or the limit.

    A job that has started, or was requeued, may have any limit above its --time-min.

    A running job keeps its --time-min, without any effect. The --time-min cannot be removed before a requeue.

    >>> entry = Entry("7", 0.0, 1200.0, 600.0, State.PLANNED, 0.0, How.TIME_MIN)
    >>> job = Plannable("7", "7", 0.0, has_started=True, waits=False, limit=900.0, time_min=600.0)
    >>> waits = job._replace(has_started=False, waits=True)
    >>> shown = (job, job._replace(limit=1200.0), waits, waits._replace(limit=1200.0))
    >>> [_stands_by_time_min(one, entry) for one in shown]
    [True, False, None, True]
    """
    if job.time_min not in (0.0, entry.planned):
        return None
    ours, lowered = job.time_min == entry.planned, entry.planned <= job.limit < entry.user_limit
    if job.limit != entry.user_limit and not (lowered and ours):
        return None
    if job.has_started:
        return lowered
    if lowered and job.submit_time == entry.submit_time:
        return None  # Slurm lowers only limits of jobs that start
    return ours


MAY_STAND = (State.INTENDED, State.PLANNED, State.RESTORING)


def start_list(entries: Iterable[Entry]) -> str:
    """Return the lines of the list for the start script, in order of job ids.

    Jobs planned by --time-min are left out, because Slurm itself lowers their limits.

    >>> entries = [Entry("7_3", 0.0, 7200.0, 5400.0, state, 0.0) for state in (State.PLANNED, State.RESTORED)]
    >>> start_list([*entries, Entry("12", 0.0, 180000.0, 90000.0, State.INTENDED, 0.0)]).splitlines()
    ['12 1-01:00:00 3000', '7_3 01:30:00 120']
    """
    rows = sorted((e for e in entries if e.state in MAY_STAND and e.how is How.LIMIT), key=lambda e: e.job_id)
    return "".join(f"{e.job_id} {format_duration(e.planned)} {e.user_limit / 60:.0f}\n" for e in rows)


@dataclass(slots=True)
class CycleOutcome:
    """Counts of what one planning cycle changed, and how many jobs have a planned limit after the cycle.

    About the order: the number of factors that were set (`ordered`) and restored (`returned`), and of records that have
    a factor (`placed`).
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
