"""Which jobs are never planned, each with the reason."""

from __future__ import annotations

import hashlib
import math
import re

from ..formats.plannable import Plannable
from .terms import Terms
from .token import without, words_of

OPT_IN = re.compile(r"(?<![\w-])batchcast(?![\w-])")
ANOTHER = "another batchcast plans it, or one whose store is lost (its AdminComment)"
_LIMITED = re.compile(r"(Assoc|QOS).*(Wall|Mins|Minutes)|PartitionTimeLimit|Deadline|Reservation")


def why_untouched(job: Plannable, terms: Terms) -> str:
    """Why this job, at its user's limit, is not planned; empty where it may be. The first reason that holds.

    >>> job = Plannable("7", "7", 0.0, begun=False, waits=True, limit=7200.0, partitions=("main",))
    >>> terms = Terms(0.0, {"main": 3600.0}, {"main": 86400.0}, partitions=frozenset({"main"}))
    >>> why_untouched(job, terms), why_untouched(job._replace(limit=math.inf), terms)
    ('', 'it has no limit')
    >>> why_untouched(job, terms._replace(over_time={"main": 0.0}))
    'OverTimeLimit is 0 in partition main'
    """
    return next(filter(None, (rule(job, terms) for rule in _RULES)), "")


def _stopped(_: Plannable, terms: Terms) -> str:
    return terms.stopped


def _opted_in(job: Plannable, terms: Terms) -> str:
    return (
        "" if is_opted_in(job, terms) else "nobody opted in: not its partition, its QOS, or batchcast in its --comment"
    )


def is_opted_in(job: Plannable, terms: Terms) -> bool:
    """Whether its partition, its QOS or its comment is in; of several partitions all must be: it may run in any."""
    all_in = bool(job.partitions) and set(job.partitions) <= terms.partitions
    return all_in or job.qos in terms.qos or bool(OPT_IN.search(without(job.comment)))


def another(job: Plannable) -> bool:
    """Whether its AdminComment tells of a planned limit. Of a job that is not in our record, it is not ours.

    >>> job = Plannable("7", "7", 0.0, begun=False, waits=True, limit=60.0)
    >>> theirs = job._replace(admin_comment="batchcast:limit=02:00:00,planned=00:01:00;")
    >>> another(job), another(theirs)
    (False, True)
    """
    return not job.finished and words_of(job.admin_comment).startswith("limit=")


def _special(job: Plannable, _: Terms) -> str:
    return job.special or ("it has a --time-min" if job.time_min > 0 else "")


def _has_limit(job: Plannable, _: Terms) -> str:
    return "" if 0 < job.limit < math.inf else "it has no limit"


def _within(job: Plannable, terms: Terms) -> str:
    """Above a maximum the job waits until that is raised; with a shorter limit it would slip through."""
    for name in job.partitions:
        if job.limit > terms.longest.get(name, 0.0):
            return f"its limit is above the maximum of partition {name}"
    for key in (("qos", job.qos), ("user", job.account, job.user)):
        if job.limit > terms.walls.get(key, math.inf):
            return f"its limit is above the maximum of its {'QOS' if key[0] == 'qos' else 'association'}"
    return f"it waits for a limit ({job.reason})" if _LIMITED.search(job.reason) else ""


def _covered(job: Plannable, terms: Terms) -> str:
    for name in job.partitions:
        if terms.over_time.get(name, 0.0) < 60.0:
            return f"OverTimeLimit is 0 in partition {name}"
    return "" if job.partitions else "its partition is not known"


def _before_outage(job: Plannable, terms: Terms) -> str:
    late = terms.now + terms.margin + job.limit > terms.next_outage
    return "its own limit passes the next reservation or maintenance" if late else ""


def _in_trial(job: Plannable, terms: Terms) -> str:
    return "" if is_drawn(job.base, terms) else f"it is in the trial's other arm ({terms.percent:g} % are planned)"


def is_drawn(base: str, terms: Terms) -> bool:
    """Whether a job, or an array as a whole, is in the planned arm: the same answer for the same id and seed.

    >>> terms = Terms(0.0, {}, {}, percent=10.0, seed=1)
    >>> 80 < sum(is_drawn(str(k), terms) for k in range(1000)) < 120
    True
    """
    drawn = int.from_bytes(hashlib.sha256(f"{terms.seed}:{base}".encode()).digest()[:8], "big") / 2**64
    return drawn * 100.0 < terms.percent


_RULES = (_stopped, _opted_in, _special, _has_limit, _within, _covered, _before_outage, _in_trial)
