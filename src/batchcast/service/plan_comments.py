"""The `batchcast:...;` token beside a planned limit, where this user may write AdminComment. Nothing rests on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import BatchcastError
from ..formats.plannable import Plannable
from ..planning.update import TOGETHER, Update
from ..slurm import limits
from ..slurm.client import admin_level
from ..slurm.transport import Transport
from .connect import own_name

HOUR = 3600.0
MOST_CLEARED = 20
"""So many comments that nothing stands behind any more are taken away in one cycle: one call each."""


@dataclass(slots=True)
class Comments:
    """Sends updates, with their comment as long as slurmctld takes it."""

    transport: Transport
    _may: bool = False
    _asked_at: float = -math.inf

    def may_write(self) -> bool:
        """Whether this user may write AdminComment: root and administrators may. Asked once an hour."""
        now = self.transport.now()
        if not 0 <= now - self._asked_at < HOUR:
            self._asked_at, who = now, own_name()
            try:
                self._may = who == "root" or admin_level(self.transport, who).lower() == "administrator"
            except BatchcastError:  # slurmdbd is away: limits come first, and need no comment
                self._may = False
        return self._may

    def send(self, target: str, update: Update) -> str:
        """Ask slurmctld for it, without the comment where that is refused; what it complained of, in words."""
        complaint = limits.update(self.transport, target, update.words)
        bare = update._replace(admin_comment=None)
        if complaint and update.admin_comment is not None and bare.words:
            if not (again := limits.update(self.transport, target, bare.words)):
                self._may, self._asked_at = False, self.transport.now()
            return again
        return complaint

    def clear(self, left: Sequence[tuple[Plannable, str]]) -> list[str]:
        """Take tokens away behind which nothing stands, some at a time; complaints in words."""
        by_comment: dict[str, list[str]] = {}
        for job, comment in left:
            ids = by_comment.setdefault(comment, [])
            name = job.raw_id if job.waits and job.raw_id == job.base else job.job_id
            if name not in ids and len(ids) < TOGETHER:
                ids.append(name)
        said = (
            limits.update(self.transport, ",".join(ids), (f"admincomment={comment}",))
            for comment, ids in list(by_comment.items())[:MOST_CLEARED]
        )
        return [f"clearing a comment: {complaint}" for complaint in said if complaint]
