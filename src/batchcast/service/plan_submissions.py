"""What is known of waiting jobs' submissions: looked up once each, some at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ..formats.plannable import Plannable
from ..formats.submitted import Submitted, why_not
from ..planning.terms import Terms
from ..slurm import limits
from ..slurm.transport import Transport

MOST_LOOKED_UP = 20
"""So many submissions are looked up in one cycle: each costs slurmctld a call."""


@dataclass(slots=True)
class Submissions:
    """Submissions by raw id."""

    transport: Transport
    known: dict[str, Submitted] = field(default_factory=dict)

    def why_not(self, terms: Terms) -> Callable[[Plannable], str]:
        """Why a job's submission rules planning out, as far as it was looked up."""

        def why(job: Plannable) -> str:
            asked = self.known.get(job.raw_id)
            return "its submission was not looked up yet" if asked is None else why_not(asked, job, terms.defaults)

        return why

    def look_up(self, jobs: Iterable[Plannable], most: int = MOST_LOOKED_UP) -> bool:
        """Ask for those that are not known; whether anything became known."""
        raw_ids = [i for i in dict.fromkeys(job.raw_id for job in jobs) if i not in self.known][:most]
        found = limits.submissions(self.transport, raw_ids) if raw_ids else {}
        self.known |= found
        return bool(found)

    def keep(self, jobs: Sequence[Plannable]) -> None:
        """Forget all but those of these jobs that wait."""
        shown = {job.raw_id for job in jobs if job.waits}
        self.known = {raw_id: one for raw_id, one in self.known.items() if raw_id in shown}
