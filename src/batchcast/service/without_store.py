"""Answers where nobody collects: one gentle query to the batch system, and it is said."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import NoAnswer, NoStore, Unreachable
from . import answers, ask
from .access import Asker, Site, Who, start_settings
from .connect import open_scheduler
from .document import Said
from .release import start_answer
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
    blank: dict[str, Any] = {"point_s": None, "method": None, "grounds": None}
    blank["basis"] = "the scheduler's own estimate; no history is kept here"
    results = [{**start_answer({**j._asdict(), **j.asked, **blank}, now), **answers.shown({})} for j in waiting]
    return Said({}, start_settings(settings, now), [why + ": asked the scheduler once instead"], results)


DAYS = 30
_ONCE = ": asked the scheduler once instead, for the last 30 days"


def walltime(
    settings: Settings, what: str | None, glob: str | None, user: str, viewer: Asker, risk: float, now: float, why: str
) -> Said:
    """`ask.walltime` from one question to accounting."""
    with _one_question(settings, user, now, why) as site:
        reply = ask.walltime(settings, what, glob, user, viewer, risk, now, site)
    return reply._replace(warnings=[why + _ONCE], settings={**reply.settings, "similar_within_days": DAYS})


def report(settings: Settings, who: Who, since: float, until: float, viewer: Asker, now: float, why: str) -> Said:
    """`ask.report` for one user from one question to accounting; groups need a store."""
    if who.user is None:
        raise NoStore(f"{why}, and without one only a user's own jobs are asked for", hint="-u NAME, or a collector")
    with _one_question(settings, who.user, now, why) as site:
        reply = ask.report(settings, who, since, until, viewer, now, site)
    return reply._replace(warnings=[why + _ONCE])


@contextmanager
def _one_question(settings: Settings, user: str, now: float, why: str) -> Iterator[Site]:
    """A store of what accounting says of one user's last 30 days, thrown away afterwards.

    Accounting itself decides whose jobs it shows, so no rule of ours is laid over it.
    """
    from ..store.database import Store
    from ..store.history import take_in
    from ..store.reader import Reader

    try:
        scheduler = open_scheduler(settings)[0]
        seen = scheduler.history_of(user, now - DAYS * 86400, now)
    except Unreachable as error:
        hint = error.hint or "batchcast doctor checks every part"
        raise Unreachable(f"{why}, and {error.message}", hint=hint) from None
    with tempfile.TemporaryDirectory(prefix="batchcast-") as place:
        store = Store(str(Path(place) / "store.db"), create=True)
        with store.begin() as connection:
            take_in(connection, "here", seen.jobs, now)
        reader = Reader(str(Path(place) / "store.db"))
        gathers = getattr(scheduler, "gathers", None)
        yield Site(reader, "here", {"site": {"gathers": gathers}} if gathers else {}, private=False)
        reader.close()
        store.close()
