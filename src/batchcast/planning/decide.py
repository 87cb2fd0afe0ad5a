# SPDX-License-Identifier: Apache-2.0
"""Decides which time limits to set or restore and which jobs to leave unchanged, and gives the reason for each
decision. Pure.

The module also reads and writes batchcast's token in job comments: `batchcast:...;`.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from ..formats.slurm.plannable import Plannable
from .record import Entry, How, Owner, State, Terms, in_minutes, least_limit, owner_of

_TOKEN = re.compile(r"(?:^| )batchcast:([^;]*);")
LONGEST = 1000
"""Users' comments longer than this are left unchanged, because every cycle would read them."""


def without_token(comment: str) -> str:
    """Return a job's comment without batchcast's token.

    >>> [without_token(t) for t in ("nights only batchcast:limit=02:00:00;", "batchcast:start=x;", "batchcast a;b")]
    ['nights only', '', 'batchcast a;b']
    """
    return _TOKEN.sub("", comment)


def with_token(comment: str, words: str) -> str:
    """Return the comment with one batchcast token that contains the given words, or without a token if no words are
    given.

    >>> with_token("nights only", "limit=02:00:00"), with_token("a batchcast:limit=1;", ""), with_token("", "x=1")
    ('nights only batchcast:limit=02:00:00;', 'a', 'batchcast:x=1;')
    """
    others = without_token(comment)
    if not words:
        return others
    return f"{others} batchcast:{words};" if others else f"batchcast:{words};"


def token_text(comment: str) -> str:
    """Return the text of batchcast's token in the comment; empty if there is no token.

    >>> token_text("a batchcast:start=2026-11-22T23:40;"), token_text("a batchcast b")
    ('start=2026-11-22T23:40', '')
    """
    token = _TOKEN.search(comment)
    return token.group(1) if token else ""


def may_merge(comment: str) -> bool:
    """Return whether scontrol stores a user's text unchanged: the text is printable, not long, and begins without a
    quote.

    >>> may_merge("x y z"), may_merge("'quoted'"), may_merge("two\\nlines")
    (True, False, False)
    """
    return comment.isprintable() and len(comment) <= LONGEST and comment[:1] not in ("'", '"')


OPT_IN = re.compile(r"(?<![\w-])batchcast(?![\w-])")
PLANNED_BY_ANOTHER = (
    "planned by another batchcast installation, or by an earlier one whose store is lost (see AdminComment)"
)
_LIMITED = re.compile(r"(Assoc|QOS).*(Wall|Mins|Minutes)|PartitionTimeLimit|Deadline|Reservation")


def why_ineligible(job: Plannable, terms: Terms) -> str:
    """Return the first reason why planning must not shorten this job's limit; empty if planning may shorten it.

    >>> job = Plannable("7", "7", 0.0, has_started=False, waits=True, limit=7200.0, partitions=("main",))
    >>> terms = Terms(0.0, {"main": 3600.0}, {"main": 86400.0}, partitions=frozenset({"main"}))
    >>> why_ineligible(job, terms), why_ineligible(job._replace(limit=math.inf), terms)
    ('', 'it has no limit')
    >>> why_ineligible(job, terms._replace(over_time={"main": 0.0}))
    'OverTimeLimit is 0 in partition main'
    """
    return next(filter(None, _reasons(job, terms)), "")


def _reasons(job: Plannable, terms: Terms) -> Iterator[str]:
    """Yield the reasons why planning must not shorten this job's limit, and empty texts."""
    yield terms.stopped
    if not is_opted_in(job, terms):
        yield "not opted in: neither its partition nor its QOS is planned, and its --comment has no `batchcast`"
    yield job.special or ("it has a --time-min" if job.time_min > 0 else "")
    if not 0 < job.limit < math.inf:
        yield "it has no limit"
    # the job must wait, although a shorter limit would let it start
    for name in job.partitions:
        if job.limit > terms.longest.get(name, 0.0):
            yield f"the job's time limit is above the maximum of partition {name}"
    for what, key in (("QOS", ("qos", job.qos)), ("association", ("user", job.account, job.user))):
        if job.limit > terms.walls.get(key, math.inf):
            yield f"its limit is above the maximum of its {what}"
    if _LIMITED.search(job.reason):
        yield f"the job waits because of a resource limit ({job.reason})"
    for name in job.partitions:
        if terms.over_time.get(name, 0.0) < 60.0:
            yield f"OverTimeLimit is 0 in partition {name}"
    yield "" if job.partitions else "the job's partition is not known"
    if terms.now + terms.margin + job.limit > terms.next_outage:
        yield "the job's time limit reaches into the next reservation or maintenance"
    if not is_drawn(job.base, terms):
        yield f"it is in the trial's arm without planning ({terms.percent:g} % of jobs are planned)"


def is_opted_in(job: Plannable, terms: Terms) -> bool:
    """Return whether the job's partition, QOS or comment opts in to planning.

    If a job lists several partitions, all of its partitions must have opted in, because the job may run in any of them.
    """
    all_in = bool(job.partitions) and set(job.partitions) <= terms.partitions
    return all_in or job.qos in terms.qos or bool(OPT_IN.search(without_token(job.comment)))


def planned_by_another(job: Plannable) -> bool:
    """Return whether AdminComment has a planned limit.

    If the job is not in our record, another batchcast instance has set the planned limit.

    >>> job = Plannable("7", "7", 0.0, has_started=False, waits=True, limit=60.0)
    >>> theirs = job._replace(admin_comment="batchcast:limit=02:00:00,planned=00:01:00;")
    >>> planned_by_another(job), planned_by_another(theirs)
    (False, True)
    """
    return not job.finished and token_text(job.admin_comment).startswith("limit=")


def is_drawn(base: str, terms: Terms) -> bool:
    """Return whether a job, or a whole array, is in the planned arm of the trial. The result depends only on the job's
    id and the trial's seed.

    >>> terms = Terms(0.0, {}, {}, percent=10.0, seed=1)
    >>> 80 < sum(is_drawn(str(k), terms) for k in range(1000)) < 120
    True
    """
    drawn = int.from_bytes(hashlib.sha256(f"{terms.seed}:{base}".encode()).digest()[:8], "big") / 2**64
    return drawn * 100.0 < terms.percent


Forecast = Callable[[Plannable], "float | str"]
"""Returns the predicted time that a job needs, in seconds, or the reason why there is no prediction."""
Signal = Callable[[Plannable], str]
"""Returns the reason why a job's submission options, such as --signal, rule out planning; empty if they do not."""


class Action(NamedTuple):
    """One planning step: set a planned limit, restore the user's limit, or only record a state of the change.

    `entry` is the record to write before the limit is set; for `note`, `entry` is the new record.
    """

    kind: Literal["plan", "restore", "note"]
    job: Plannable
    entry: Entry
    why: str

    @property
    def limit(self) -> float:
        """The limit, or the planned --time-min, after this step, in seconds."""
        return self.entry.planned if self.kind == "plan" else self.entry.user_limit

    @property
    def how(self) -> How:
        """Whether this step sets the limit or --time-min."""
        return self.entry.how if self.kind == "plan" else How.LIMIT

    @property
    def final_state(self) -> State:
        """The state that the entry gets once Slurm shows the change."""
        if self.kind == "plan":
            return State.PLANNED
        return State.FOREIGN if self.entry.state is State.YIELDING else State.RESTORED


def verdict(job: Plannable, terms: Terms, forecast: Forecast, signal: Signal) -> tuple[float, str]:
    """Return the planned limit of a waiting job and the reason; the limit is NaN if the job is left unchanged.

    The planned limit is at least `least_limit` and `terms.least`, and below the user's limit.
    """
    if why := why_ineligible(job, terms) or (PLANNED_BY_ANOTHER if planned_by_another(job) else ""):
        return math.nan, why
    needs = forecast(job)
    if isinstance(needs, str):
        return math.nan, needs
    least = max(least_limit(job.limit, job.partitions, terms.over_time), terms.least)
    planned = in_minutes(max(needs, least))
    if not planned < job.limit:
        is_long = "the predicted limit is not shorter than the user's limit"
        return math.nan, is_long if needs >= least else "the user's limit is already short"
    if why := signal(job):
        return math.nan, why
    return planned, "forecast" if needs >= least else "prediction, raised until OverTimeLimit covers the user's limit"


def decide(
    jobs: Sequence[Plannable], record: Mapping[str, Entry], terms: Terms, forecast: Forecast, signal: Signal
) -> list[Action]:
    """Return the planning steps to take now. Restored limits come first, beginning with the limits of started jobs.

    Only jobs in `jobs` are considered. Waiting tasks of an array have one limit in Slurm, so they are planned together,
    with the longest of their predicted times, or not at all. O(jobs).
    """
    actions: list[Action] = []
    free: list[Plannable] = []
    for job in jobs:
        entry = record.get(job.job_id)
        action = _follow(job, entry, terms) if entry else None
        actions += [action] if action else []
        is_left = action is None or action.kind == "note"
        if job.waits and (entry is None or (is_left and owner_of(job, entry, terms) is Owner.USERS)):
            free.append(job)
    actions.sort(key=lambda a: (a.kind != "restore", not a.job.has_started))
    return actions + _plans(free, jobs, terms, forecast, signal)


def _follow(job: Plannable, entry: Entry, terms: Terms) -> Action | None:
    """Return the step for a job that has an entry in the record; None if no step is needed."""
    if job.finished and entry.state in (State.INTENDED, State.PLANNED, State.RESTORING):
        return _note(job, entry, State.ENDED, terms, "the job ended before the next cycle")
    if not (job.has_started or job.waits):
        return None
    why = "another user changed the job's time limit"
    if entry.state is State.YIELDING:
        return _yield(job, entry, terms, why)
    mine = owner_of(job, entry, terms)
    by_start = entry.how is How.TIME_MIN and job.has_started
    if by_start and mine is not Owner.ANOTHERS:
        entry = entry._replace(submit_time=job.submit_time)  # the job keeps its --time-min when it is requeued
    if mine is Owner.ANOTHERS:
        if entry.how is How.TIME_MIN and job.waits and job.time_min == entry.planned:
            return _yield(job, entry, terms, why)
        return None if entry.state is State.FOREIGN else _note(job, entry, State.FOREIGN, terms, why)
    if mine is Owner.USERS:
        back = entry.state in (State.PLANNED, State.RESTORING) or (by_start and entry.state is State.INTENDED)
        return _note(job, entry, State.RESTORED, terms, "Slurm shows its user's limit") if back else None
    if why := _why_restore(job, entry, terms):
        return Action("restore", job, entry._replace(state=State.RESTORING, at=terms.now), why)
    if entry.state is not State.PLANNED:
        return _note(job, entry, State.PLANNED, terms, "Slurm shows its planned limit")
    return None


def _yield(job: Plannable, entry: Entry, terms: Terms, why: str) -> Action:
    """Return the step that removes our --time-min from a job whose limit somebody else has set.

    If the --time-min stayed, Slurm would lower the other person's limit too.
    """
    lowered = job.has_started and entry.planned <= job.limit < entry.user_limit
    if job.time_min != entry.planned or (job.has_started and not lowered):
        return _note(job, entry, State.FOREIGN, terms, why)
    theirs = entry.user_limit if lowered else job.limit
    return Action("restore", job, entry._replace(user_limit=theirs, state=State.YIELDING, at=terms.now), why)


def _note(job: Plannable, entry: Entry, state: State, terms: Terms, why: str) -> Action:
    """Return the step that only records a new state of a job's limit."""
    return Action("note", job, entry._replace(state=state, at=terms.now), why)


def _why_restore(job: Plannable, entry: Entry, terms: Terms) -> str:
    """Return why a planned limit must be restored; empty if the planned limit may stay."""
    if job.has_started:
        return "it has started"
    if job.submit_time != entry.submit_time:
        return "it was requeued"
    if entry.how is not terms.how:
        return f"planning now uses {terms.how}"
    if entry.planned < least_limit(entry.user_limit, job.partitions, terms.over_time):
        return "OverTimeLimit no longer covers the planned limit"
    return why_ineligible(job._replace(limit=entry.user_limit, time_min=0.0), terms)


def _plans(
    free: Iterable[Plannable], jobs: Sequence[Plannable], terms: Terms, forecast: Forecast, signal: Signal
) -> list[Action]:
    """Return new planned limits; array tasks that share one record in slurmctld get one limit."""
    size = Counter(job.raw_id for job in jobs if job.waits)
    groups = defaultdict(list)
    for job in free:
        groups[job.raw_id].append(job)
    actions = []
    for raw_id, group in groups.items():
        if len(group) < size[raw_id]:
            continue  # somebody else has changed some tasks of the array
        verdicts = [verdict(job, terms, forecast, signal) for job in group]
        if any(math.isnan(limit) for limit, _ in verdicts):
            continue
        planned = max(limit for limit, _ in verdicts)
        for job, (_, why) in zip(group, verdicts):
            entry = Entry(job.job_id, job.submit_time, job.limit, planned, State.INTENDED, terms.now, terms.how)
            actions.append(Action("plan", job, entry, why))
    return actions
