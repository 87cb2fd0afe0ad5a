"""Answers where nobody collects: one gentle query to the batch system, and it is said."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import NoAnswer, Unreachable
from . import answers
from .ask import start_settings
from .connect import open_scheduler
from .document import Said
from .settings import Settings


def start(settings: Settings, ids: Sequence[str], user: str | None, why: str, now: float) -> Said:
    """The batch system's own estimates for waiting jobs by id, or of a user; `why` there is no store."""
    scheduler = open_scheduler(settings)[0]
    try:
        seen = scheduler.job(",".join(ids)) if ids else scheduler.jobs_of(user)
    except Unreachable as error:
        hint = error.hint or "batchcast doctor checks every part"
        raise Unreachable(f"{why}, and {error.message}", hint=hint) from None
    waiting = [j for j in seen.jobs if j.state == "PENDING" and j.expected_start == j.expected_start]
    if not waiting:
        raise NoAnswer(
            f"{why}, and the scheduler itself gives no start for {', '.join(ids) or user}",
            hint="try again in a minute, or ask for a collector (docs/live.md)",
        )
    blank = {"point_s": None, "dependency": None, "basis": "the scheduler's own estimate; no history is kept here"}
    results = [
        {**answers.start_answer({**j._asdict(), **blank, "method": None}, now), **answers.shown({})} for j in waiting
    ]
    return Said({}, start_settings(settings, now), [why + ": asked the scheduler once instead"], results)
