"""`plan = "advise"`: the forecast of a job's start in a comment, and nothing else.

In AdminComment where this user is an administrator; an operator may write the job's Comment, which is its user's: there
too others' words stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..formats.plannable import Plannable
from ..planning.advise import Field, Start, comments
from ..planning.terms import opted_in
from ..planning.token import words_of
from ..slurm import limits
from ..slurm.transport import Transport
from ..store import clock_jobs, planned
from ..store.database import Store
from ..store.reader import Reader
from .answers import answering_method
from .plan_comments import Comments
from .release import start_answer
from .settings import Settings

TOLD = "plan_advised"
"""The name of what the store remembers of a cluster: in which field comments of ours may stand."""
MOST_WRITTEN = 10
"""So many comments are written in one cycle: each is a call to slurmctld."""


@dataclass(slots=True)
class Adviser:
    """Keeps the comments of one cluster's waiting jobs."""

    transport: Transport
    store: Store
    settings: Settings

    def cycle(self, cluster: str) -> tuple[int, list[str]]:
        """One look and what follows from it: how many comments were changed, and what went wrong, in words.

        Where it is off it takes away what it has written, and asks nothing once that is done.
        """
        with self.store.begin() as connection:
            memory = clock_jobs.read_meta(connection, cluster)
        stop = "off" if self.settings["plan"] != "advise" or memory.get(planned.SWITCH) else ""
        told = memory.get(TOLD)
        if stop and not told:
            return 0, []
        mine: Field = "admin_comment" if Comments(self.transport).may_write() else "comment"
        field: Field = told if stop and told in ("admin_comment", "comment") else mine
        if not stop and told != field:
            self._remember(cluster, field)
        look = limits.look(self.transport)
        terms = opted_in(self.settings, look.asked_at, stop)
        wanted = comments(look.jobs, {} if stop else self._starts(cluster, look.asked_at), terms, field)
        done, problems = self._write(wanted[: 10 * MOST_WRITTEN if stop else MOST_WRITTEN], field)
        left = limits.look(self.transport) if done else look
        if stop and not any(words_of(str(getattr(job, field))) for job in left.jobs if not job.finished):
            self._remember(cluster, None)
        return done, problems

    def _remember(self, cluster: str, field: Field | None) -> None:
        with self.store.begin() as connection:
            clock_jobs.write_meta(connection, cluster, **{TOLD: field})

    def _starts(self, cluster: str, now: float) -> dict[str, Start]:
        """What `batchcast start` answers of every waiting job."""
        reader = Reader(self.store.url)
        try:
            rows = reader.waiting(cluster, answering_method(reader.memory(cluster)))
        finally:
            reader.close()
        answers = (start_answer(row, now) for row in rows)
        return {a["job_id"]: Start(a["likely_start_s"], a["by_90_start_s"]) for a in answers}

    def _write(self, wanted: Sequence[tuple[Plannable, str]], field: Field) -> tuple[int, list[str]]:
        """Write those whose job is as it was at the look; tasks of an array that wait together share a comment."""
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
