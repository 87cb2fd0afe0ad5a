# SPDX-License-Identifier: Apache-2.0
"""The `scontrol update` commands of planning, for limits and comments, and checks of their effect. Pure."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Literal, NamedTuple

from ..formats.slurm.plannable import Plannable
from ..units import format_duration
from .decide import Action, is_drawn, is_opted_in, may_merge, token_text, with_token
from .record import Entry, How, Owner, Terms, owner_of

TOGETHER = 50
"""Maximum number of jobs in one update."""
MOST_UPDATES = 20
"""Maximum number of updates per cycle that plan jobs. Jobs that start meanwhile must not wait long until their limit
is restored.
"""


class Update(NamedTuple):
    """A change of one job, in seconds; None leaves a value unchanged."""

    limit: float | None = None
    time_min: float | None = None
    admin_comment: str | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The change of the job as arguments of `scontrol update`.

        >>> Update(limit=600.0, admin_comment="a b").words, Update(time_min=0.0).words
        (('timelimit=10', 'admincomment=a b'), ('timemin=0',))
        """
        spans = (("timelimit", self.limit), ("timemin", self.time_min))
        words = [f"{name}={span / 60:.0f}" for name, span in spans if span is not None]
        return (*words, *([] if self.admin_comment is None else [f"admincomment={self.admin_comment}"]))


def update_of(action: Action, terms: Terms) -> Update:
    """Return the update that performs an action, with a token for AdminComment if batchcast may write comments."""
    job, entry, plans = action.job, action.entry, action.kind == "plan"
    comment = commented(job, words_for(entry) if plans else "") if terms.comments else None
    if entry.how is How.LIMIT:
        return Update(limit=action.limit, admin_comment=comment)
    if plans:
        return Update(time_min=entry.planned, admin_comment=comment)
    limit = entry.user_limit if job.limit != entry.user_limit else None
    return Update(limit, 0.0 if job.waits else None, comment)


def words_for(entry: Entry) -> str:
    """Return the text of a token: the user's limit, and the planned limit or --time-min.

    >>> from batchcast.planning.record import State
    >>> words_for(Entry("7", 0.0, 7200.0, 5400.0, State.PLANNED, 0.0))
    'limit=02:00:00,planned=01:30:00'
    """
    name = "planned" if entry.how is How.LIMIT else entry.how
    return f"limit={format_duration(entry.user_limit)},{name}={format_duration(entry.planned)}"


def commented(job: Plannable, words: str) -> str | None:
    """Return the AdminComment with a token that contains the given words (without words: no token); None if the comment
    is unchanged."""
    comment = with_token(job.admin_comment, words)
    return comment if comment != job.admin_comment and may_merge(job.admin_comment) else None


def stale(jobs: Iterable[Plannable], record: Mapping[str, Entry], terms: Terms) -> list[tuple[Plannable, str]]:
    """Return jobs with an outdated batchcast token in AdminComment, and the comment without the token.

    If a job is not in batchcast's record, its token belongs to another batchcast instance and is not removed.
    """
    written = ((job, record.get(job.job_id)) for job in jobs if token_text(job.admin_comment) and not job.finished)
    left = (job for job, entry in written if entry is not None and owner_of(job, entry, terms) is not Owner.OURS)
    return [(job, comment) for job in left if (comment := commented(job, "")) is not None]


def is_done(job: Plannable, action: Action) -> bool:
    """Return whether Slurm shows the change of a job. Comments are not checked, because no decision depends on
    comments."""
    entry = action.entry
    if entry.how is How.LIMIT:
        return job.limit == action.limit
    if action.kind == "plan":
        return job.time_min == entry.planned
    return job.limit == entry.user_limit and (job.has_started or job.time_min == 0.0)


def at_once(actions: Sequence[Action], terms: Terms) -> list[Action]:
    """Return the actions that fit into one cycle's updates; jobs with the same change share an update."""
    return [action for *_, some in targets(actions, terms)[:MOST_UPDATES] for action in some]


def targets(actions: Iterable[Action], terms: Terms) -> list[tuple[Update, str, list[Action]]]:
    """Return the updates for these actions: each with its jobs for `scontrol update jobid=` and the actions for these
    jobs.

    Jobs with equal updates share one command. Waiting tasks of an array are written as one list, so that slurmctld need
    not split the array.

    >>> from batchcast.planning.record import State
    >>> def task(k):
    ...     job = Plannable(f"5_{k}", "5", 0.0, has_started=False, waits=True, limit=600.0)
    ...     return Action("restore", job, Entry(job.job_id, 0.0, 600.0, 60.0, State.RESTORING, 0.0), "")
    >>> [(update.words, name) for update, name, _ in targets([task(1), task(2), task(4)], Terms(0.0, {}, {}))]
    [(('timelimit=10',), '5_[1-2,4]')]
    """
    plain, arrays = defaultdict(list), defaultdict(list)
    for one in actions:
        update = update_of(one, terms)
        if in_one_record(one.job):
            arrays[update, one.job.raw_id].append(one)
        else:
            plain[update].append(one)
    pieces = ((update, all_[k : k + TOGETHER]) for update, all_ in plain.items() for k in range(0, len(all_), TOGETHER))
    updates = [(update, ",".join(a.job.job_id for a in some), some) for update, some in pieces]
    return updates + [(update, array_of([a.job for a in some]), some) for (update, _), some in arrays.items()]


def in_one_record(job: Plannable) -> bool:
    """Return whether a job is a waiting array task that shares a record in slurmctld with other tasks."""
    return job.waits and "_" in job.job_id and job.raw_id == job.base


def array_of(tasks: Sequence[Plannable]) -> str:
    """Return the id of some tasks of one array for `scontrol update jobid=`."""
    return f"{tasks[0].base}_[{task_ranges([int(task.job_id.partition('_')[2]) for task in tasks])}]"


def chunks(actions: Sequence[Action]) -> list[list[Action]]:
    """Split the actions of a cycle into pieces; tasks that share one record in slurmctld stay in one piece."""
    chunks: list[list[Action]] = []
    for one in actions:
        if not chunks or (len(chunks[-1]) >= TOGETHER and chunks[-1][-1].job.raw_id != one.job.raw_id):
            chunks.append([])
        chunks[-1].append(one)
    return chunks


def is_same(now: Plannable | None, then: Plannable) -> bool:
    """Return whether a job still waits and has not changed, apart from Slurm's reason for its wait."""
    return now is not None and now.waits and now._replace(reason=then.reason) == then


def task_ranges(numbers: Sequence[int]) -> str:
    """Return task numbers in Slurm's format, in order.

    >>> task_ranges([4, 1, 2])
    '1-2,4'
    """
    # consecutive numbers have the same difference to their index
    groups = groupby(enumerate(sorted(numbers)), key=lambda pair: pair[1] - pair[0])
    runs = [[n for _, n in group] for _, group in groups]
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


Field = Literal["admin_comment", "comment"]
COARSE, FINE = 900.0, 300.0
SHIFT_S, SHIFT_SHARE = 600.0, 0.2
FORM = "%Y-%m-%dT%H:%M"


class Start(NamedTuple):
    """The predicted start of a job: the likely time and the 90 % bound (epoch seconds; NaN or infinite: unknown)."""

    likely: float
    by_90: float


def comments(
    jobs: Iterable[Plannable], starts: Mapping[str, Start], terms: Terms, field: Field
) -> list[tuple[Plannable, str]]:
    """Return the jobs whose comment must change, and their new comments. Jobs that lose batchcast's token come first.

    A job has a token while it waits, has opted in and has a prediction. A token is rewritten only if the likely start
    moves by more than ten minutes and more than a fifth of the remaining wait. If scontrol cannot store a user's text
    unchanged, the comment is not changed. Waiting tasks of an array have one comment in Slurm; the comment describes
    the first task.
    """
    gone, new = [], []
    by_record: dict[str, Plannable] = {}
    for job in jobs:
        by_record.setdefault(job.raw_id if in_one_record(job) else job.job_id, job)
    for job in by_record.values():
        own = str(getattr(job, field))
        before = token_text(own)
        start = starts.get(job.job_id) if not terms.stopped and job.waits else None
        drawn = start is not None and is_opted_in(job, terms) and is_drawn(job.base, terms)
        words = words_of_start(start, terms.now) if start is not None and drawn else ""
        if words == before or not may_merge(own) or job.finished:
            continue
        if not words:
            gone.append((job, with_token(own, "")))
        elif not before or _is_worth(before, words, terms.now):
            new.append((job, with_token(own, words)))
    return gone + new


def words_of_start(start: Start, now: float) -> str:
    """Return the text of the token with a job's predicted start, rounded up, in this machine's local time; empty if no
    start is predicted.

    >>> words_of_start(Start(math.nan, math.nan), 0.0)
    ''
    >>> len(words_of_start(Start(1000.0, 90_000.0), 0.0)) == len("start=2026-11-22T23:40,by=2026-11-23T06:15")
    True
    """
    times = {"start": start.likely, "by": start.by_90} if math.isfinite(start.likely) else {}
    return ",".join(f"{name}={_stamp(at, now)}" for name, at in times.items() if math.isfinite(at))


def _stamp(at: float, now: float) -> str:
    """Format an instant (epoch seconds) as local time, rounded up to 5 minutes within two hours, else to 15 minutes."""
    step = FINE if at - now < 2 * 3600.0 else COARSE
    return time.strftime(FORM, time.localtime(math.ceil(max(at, now) / step) * step))


def _is_worth(last: str, words: str, now: float) -> bool:
    """Return whether the token must be rewritten: the predicted start has moved far enough, or the start time in the
    token has passed."""
    last_at, now_at = (_epoch(text) for text in (last, words))
    if math.isnan(last_at) or last_at < now:
        return True
    return abs(now_at - last_at) > max(SHIFT_S, SHIFT_SHARE * max(now_at - now, 0.0))


def _epoch(words: str) -> float:
    """Return the start (epoch seconds) in the text of a token; NaN if the text has none."""
    stamp = words.partition("start=")[2].partition(",")[0]
    try:
        return time.mktime(time.strptime(stamp, FORM))
    except ValueError:
        return math.nan
