# SPDX-License-Identifier: Apache-2.0
"""Which jobs are never planned, each with the reason; and our token in comments that belong to others. Pure."""

from __future__ import annotations

import hashlib
import math
import re

from ..formats.slurm.plannable import Plannable
from .terms import Terms

_TOKEN = re.compile(r"(?:^| )batchcast:([^;]*);")
LONGEST = 1000
"""A comment of others that is longer is left alone: every look would carry it."""


def without_token(comment: str) -> str:
    """The comment without any token of ours.

    >>> [without_token(t) for t in ("nights only batchcast:limit=02:00:00;", "batchcast:start=x;", "batchcast a;b")]
    ['nights only', '', 'batchcast a;b']
    """
    return _TOKEN.sub("", comment)


def with_token(comment: str, words: str) -> str:
    """The comment with a token of these words as its only one; without words, with none.

    >>> with_token("nights only", "limit=02:00:00"), with_token("a batchcast:limit=1;", ""), with_token("", "x=1")
    ('nights only batchcast:limit=02:00:00;', 'a', 'batchcast:x=1;')
    """
    others = without_token(comment)
    if not words:
        return others
    return f"{others} batchcast:{words};" if others else f"batchcast:{words};"


def token_text(comment: str) -> str:
    """What our token in it says; empty where there is none.

    >>> token_text("a batchcast:start=2026-11-22T23:40;"), token_text("a batchcast b")
    ('start=2026-11-22T23:40', '')
    """
    token = _TOKEN.search(comment)
    return token.group(1) if token else ""


def may_merge(comment: str) -> bool:
    """Whether scontrol gives others' text back as it was: printable, not in quotes, not long.

    >>> may_merge("x y z"), may_merge("'quoted'"), may_merge("two\\nlines")
    (True, False, False)
    """
    return comment.isprintable() and len(comment) <= LONGEST and comment[:1] not in ("'", '"')


OPT_IN = re.compile(r"(?<![\w-])batchcast(?![\w-])")
PLANNED_BY_ANOTHER = "another batchcast plans it, or one whose store is lost (its AdminComment)"
_LIMITED = re.compile(r"(Assoc|QOS).*(Wall|Mins|Minutes)|PartitionTimeLimit|Deadline|Reservation")


def why_ineligible(job: Plannable, terms: Terms) -> str:
    """Why this job, at its user's limit, is not planned; empty where it may be. The first reason that holds.

    >>> job = Plannable("7", "7", 0.0, begun=False, waits=True, limit=7200.0, partitions=("main",))
    >>> terms = Terms(0.0, {"main": 3600.0}, {"main": 86400.0}, partitions=frozenset({"main"}))
    >>> why_ineligible(job, terms), why_ineligible(job._replace(limit=math.inf), terms)
    ('', 'it has no limit')
    >>> why_ineligible(job, terms._replace(over_time={"main": 0.0}))
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
    return all_in or job.qos in terms.qos or bool(OPT_IN.search(without_token(job.comment)))


def planned_by_another(job: Plannable) -> bool:
    """Whether its AdminComment tells of a planned limit. Of a job that is not in our record, it is not ours.

    >>> job = Plannable("7", "7", 0.0, begun=False, waits=True, limit=60.0)
    >>> theirs = job._replace(admin_comment="batchcast:limit=02:00:00,planned=00:01:00;")
    >>> planned_by_another(job), planned_by_another(theirs)
    (False, True)
    """
    return not job.finished and token_text(job.admin_comment).startswith("limit=")


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
