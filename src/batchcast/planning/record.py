"""What the record says of a job, and whose a limit is that Slurm shows."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from ..formats.plannable import Plannable
from .terms import Terms


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
    FOREIGN = "foreign"
    """Somebody else changed the limit: it is theirs, and the job is not planned again."""


class Entry(NamedTuple):
    """One job's entry: what was changed last. Seconds; `at` is when the state was written (epoch)."""

    job_id: str
    submit_time: float
    user_limit: float
    planned: float
    state: State
    at: float


class Whose(StrEnum):
    """Whose a limit is."""

    OURS = "ours"
    USERS = "the user's"
    ANOTHERS = "another's"


def whose(job: Plannable, entry: Entry, terms: Terms) -> Whose:
    """Whose the limit is that Slurm shows of a job with an entry.

    A limit that is not recorded is somebody else's. So is one that is, where the other was read back last, unless
    slurmctld was started since (killed, it forgets what it was told last) or a change is still on its way.

    >>> job = Plannable("7", "7", 0.0, begun=False, waits=True, limit=600.0)
    >>> entry, terms = Entry("7", 0.0, 1200.0, 600.0, State.PLANNED, 0.0), Terms(1000.0, {}, {})
    >>> [str(whose(job._replace(limit=limit), entry, terms)) for limit in (600.0, 1200.0, 900.0)]
    ['ours', "another's", "another's"]
    """
    if entry.state is State.FOREIGN or job.limit not in (entry.planned, entry.user_limit):
        return Whose.ANOTHERS
    unsure = terms.booted >= entry.at - terms.grace or terms.now - entry.at <= terms.grace
    ours = job.limit == entry.planned
    if entry.state is (State.RESTORED if ours else State.PLANNED) and not unsure:
        return Whose.ANOTHERS
    return Whose.OURS if ours else Whose.USERS
