# SPDX-License-Identifier: Apache-2.0
"""Writes comments on jobs: the token of a planned limit or, with `plan = "advise"`, the predicted start.

An administrator writes the field AdminComment. An operator may only write the field Comment, which belongs to the user,
so other text in it is preserved. No decision depends on comments.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ...errors import BatchcastError
from ...formats.slurm.plannable import Plannable
from ...planning.decide import token_text
from ...planning.record import opted_in
from ...planning.update import TOGETHER, Field, Start, Update, comments
from ...slurm import limits
from ...slurm.client import Slurm
from ...slurm.transport import Transport
from ...store import clock_jobs, planned
from ...store.database import Store
from ...store.reader import Reader
from ..answers.latest import latest_start
from ..answers.start import start_answer
from ..answers.track_record import answering_method
from ..settings import Settings, own_name

HOUR = 3600.0
MOST_CLEARED = 20
"""Largest number of outdated comments that are removed per cycle, because each needs one call to slurmctld."""


@dataclass(slots=True)
class CommentWriter:
    """Sends updates of jobs to slurmctld, with a comment if slurmctld accepts it."""

    transport: Transport
    _may: bool = False
    _asked_at: float = -math.inf

    def may_write(self) -> bool:
        """Return whether this user may write AdminComment, which only root and administrators may. The right is checked
        once an hour.
        """
        now = self.transport.now()
        if not 0 <= now - self._asked_at < HOUR:
            self._asked_at, who = now, own_name()
            try:
                self._may = who == "root" or Slurm(self.transport).admin_level(who).lower() == "administrator"
            except BatchcastError:  # slurmdbd does not answer: limits are more important, and need no comment
                self._may = False
        return self._may

    def send(self, target: str, update: Update) -> str:
        """Send an update to slurmctld. If slurmctld refuses the comment, send the update without the comment. Return
        the error message.
        """
        complaint = limits.update(self.transport, target, update.words)
        bare = update._replace(admin_comment=None)
        if complaint and update.admin_comment is not None and bare.words:
            if not (again := limits.update(self.transport, target, bare.words)):
                self._may, self._asked_at = False, self.transport.now()
            return again
        return complaint

    def clear(self, left: Sequence[tuple[Plannable, str]]) -> list[str]:
        """Remove some outdated tokens from comments; return error messages."""
        by_comment: dict[str, dict[str, None]] = defaultdict(dict)
        for job, comment in left:
            by_comment[comment][job.raw_id if job.waits and job.raw_id == job.base else job.job_id] = None
        some = ((",".join(list(ids)[:TOGETHER]), comment) for comment, ids in by_comment.items())
        said = (
            limits.update(self.transport, ids, (f"admincomment={text}",)) for ids, text in islice(some, MOST_CLEARED)
        )
        return [f"clearing a comment: {complaint}" for complaint in said if complaint]


COMMENT_FIELD = "plan_advised"
"""The stored value with this name is the field (Comment or AdminComment) in which batchcast has written comments."""
MOST_WRITTEN = 10
"""Largest number of comments that are written per cycle, because each needs one call to slurmctld."""


@dataclass(slots=True)
class Adviser:
    """Keeps the predicted starts in the comments of one cluster's waiting jobs up to date."""

    transport: Transport
    store: Store
    settings: Settings

    def cycle(self, cluster: str, values: Mapping[str, Any]) -> tuple[int, list[str]]:
        """Read the queue and write comments; return the number of changes and the errors.

        `values` are the stored values of the cluster. If `plan` is not "advise", the comments are removed, and
        afterwards no queries are sent.
        """
        stop = "off" if self.settings["plan"] != "advise" or values.get(planned.SWITCH) else ""
        written = values.get(COMMENT_FIELD)
        if stop and not written:
            return 0, []
        mine: Field = "admin_comment" if CommentWriter(self.transport).may_write() else "comment"
        field: Field = written if stop and written in ("admin_comment", "comment") else mine
        if not stop and written != field:
            self._remember(cluster, field)
        look = limits.look(self.transport)
        terms = opted_in(self.settings, look.asked_at, stop)
        wanted = comments(look.jobs, {} if stop else self._starts(cluster, look.asked_at), terms, field)
        done, problems = self._write(wanted[: 10 * MOST_WRITTEN if stop else MOST_WRITTEN], field)
        left = limits.look(self.transport) if done else look
        if stop and not any(token_text(str(getattr(job, field))) for job in left.jobs if not job.finished):
            self._remember(cluster, None)
        return done, problems

    def _remember(self, cluster: str, field: Field | None) -> None:
        with self.store.begin() as connection:
            clock_jobs.write_meta(connection, cluster, **{COMMENT_FIELD: field})

    def _starts(self, cluster: str, now: float) -> dict[str, Start]:
        """Return the start times that `batchcast start` gives for every waiting job."""
        with Reader(self.store.url) as reader:
            memory = reader.memory(cluster)
            rows = reader.waiting(cluster, answering_method(memory))
        answers = (start_answer(row, now, latest=latest_start(row, memory, now)) for row in rows)
        return {a["job_id"]: Start(a["likely_start_s"], a["by_90_start_s"]) for a in answers}

    def _write(self, wanted: Sequence[tuple[Plannable, str]], field: Field) -> tuple[int, list[str]]:
        """Write comments on the jobs that have not changed since the queue was read. Waiting tasks of an array share a
        comment.
        """
        if not wanted:
            return 0, []
        again = {j.job_id: j for j in limits.look(self.transport, [job.raw_id for job, _ in wanted]).jobs}
        same = [(job, text) for job, text in wanted if _is_same(again.get(job.job_id), job, field)]
        texts = {job.job_id if "_" not in job.job_id or not job.waits else job.raw_id: text for job, text in same}
        word = field.replace("_", "")
        said = {name: limits.update(self.transport, name, (f"{word}={text}",)) for name, text in texts.items()}
        problems = [f"the comment of {name}: {complaint}" for name, complaint in said.items() if complaint]
        return len(said) - len(problems), problems


def _is_same(now: Plannable | None, then: Plannable, field: Field) -> bool:
    return now is not None and now.waits == then.waits and getattr(now, field) == getattr(then, field)
