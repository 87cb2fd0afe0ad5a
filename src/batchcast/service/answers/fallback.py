# SPDX-License-Identifier: Apache-2.0
"""Answers questions if this user cannot read the store: by one query to the batch system, or through the service."""

from __future__ import annotations

import json
import math
import os
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ...errors import BatchcastError, NoAnswer, NoStore, Refused, Unreachable, UsageError
from ...store.place import sqlite_path
from ..batch_system import open_scheduler
from ..settings import Settings
from . import questions, track_record
from .advice import advise
from .answer import Answer
from .disclosure import Site, Viewer, Whose
from .start import start_answer, start_settings


def start_by_scheduler(settings: Settings, ids: Sequence[str], user: str | None, why: str, now: float) -> Answer:
    """Return the batch system's own start estimates for waiting jobs, by id or user. `why` says why there is
    no store.
    """
    scheduler = open_scheduler(settings)[0]
    with _reachable(why):
        seen = scheduler.job(",".join(ids)) if ids else scheduler.jobs_of(user)
    waiting = [job for job in seen.jobs if job.state == "PENDING"]
    estimated = sum(job.expected_start == job.expected_start for job in waiting)
    if not estimated:
        says = f"knows no waiting job {', '.join(ids) or f'of {user}'}"
        hint = "batchcast start --me" if ids else "batchcast start -u NAME"
        if waiting:
            says = f"gives no start for {', '.join(ids) or user}"
            hint = "ask again in a minute; with batchcast collect, every waiting job has a prediction"
        raise NoAnswer(f"{why}, and the scheduler itself {says}", hint=hint)
    basis = "the scheduler's own estimate; no history is kept here"
    blank = {"point_s": None, "method": None, "grounds": None, "basis": basis}
    record = track_record.record_fields({})
    # The answer has one row per waiting job, because callers assume that a job without a row does not wait.
    results = [start_answer({**job._asdict(), **job.requested, **blank}, now) | record for job in waiting]
    notes = [why + ": this answer is from one query to the scheduler"]
    if without := len(waiting) - estimated:
        notes.append(f"the scheduler gives no start for {without} of {len(waiting)} waiting jobs")
    return Answer({}, start_settings(settings, now), notes, results)


NEXT_STEP = "batchcast doctor checks every part"
DAYS = 30
_ONCE = ": this answer is from one query to the scheduler"


def walltime(
    settings: Settings, job: str | None, glob: str | None, user: str, viewer: Viewer, risk: float, now: float, why: str
) -> Answer:
    """Suggest a time limit and a memory request from one query to accounting, without a store."""
    with _one_question(settings, user, now - DAYS * 86400, viewer, now, why, memory=True) as site:
        reply = advise(site, job, glob, user, risk)
    return reply._replace(warnings=[f"{why}{_ONCE}, for the last {DAYS} days"])


def report(
    settings: Settings, selection: Whose, since: float, until: float, viewer: Viewer, now: float, why: str
) -> Answer:
    """Answer `report` for one user from one query to accounting. A report on an account or partition needs a store."""
    if selection.user is None:
        flags = {"-A": selection.account, "-p": selection.partition}
        of = " ".join(f"{flag} {name}" for flag, name in flags.items() if name)
        hint = f"batchcast report --months user {of}, or --each: these query only accounting"
        raise NoStore(f"{why}, and without a store only the jobs of one user can be reported", hint=hint)
    with _one_question(settings, selection.user, since, viewer, now, why) as site:
        reply = questions.report_of(site, selection, since, until)
    return reply._replace(warnings=[why + _ONCE])


@contextmanager
def _one_question(
    settings: Settings, user: str, since: float, viewer: Viewer, now: float, why: str, memory: bool = False
) -> Iterator[Site]:
    """Yield a temporary store of what accounting reports about one user's jobs since `since`.

    With `memory`, it includes the memory that the jobs used. Memory use needs a slower query, and another query about
    how memory is measured. Accounting itself decides which jobs this user may see, so no further privacy rule applies.
    """
    from ...store.reader import Reader
    from ...store.sighted import write_once

    with _reachable(why):
        scheduler = open_scheduler(settings)[0]
        seen = scheduler.history_of(user, since, now, memory=memory)
    with tempfile.TemporaryDirectory(prefix="batchcast-") as place:
        write_once(Path(place) / "store.db", "here", seen.jobs, now)
        gathers = getattr(scheduler, "gathers", None)
        known = {"site": {"gathers": gathers}} if gathers else {}
        with Reader(str(Path(place) / "store.db")) as reader:
            yield Site(reader, "here", known, False, settings, viewer, now, days=(now - since) / 86400)


@contextmanager
def _reachable(why: str) -> Iterator[None]:
    """Add the reason why there is no store to the error of a batch system that does not answer."""
    try:
        yield
    except Unreachable as error:
        raise Unreachable(f"{why}, and {error.message}", hint=error.hint or NEXT_STEP) from None


PATIENCE_S = 60.0
LEARNED = ("test", "where", "walltime", "report")
"""Questions whose answers need the clock that the collector saves beside the store."""
KINDS: dict[int, type[BatchcastError]] = {1: Refused, 2: UsageError, 3: NoAnswer, 4: Unreachable}


def answer_or_ask_service(
    settings: Settings, verb: str, parameters: Mapping[str, object], answer_here: Callable[[], Answer]
) -> Answer:
    """Answer from the store, or through the service's socket if this user cannot read the store.

    The service also answers if this user can read the store, but only the service can read the collector's saved clock.
    So the web page and this user's terminal give the same answer. If the service cannot be reached, this process
    replays the history.
    """
    if "/" not in settings["listen"]:
        return answer_here()
    if is_closed(settings):
        return ask_service(settings["listen"], verb, parameters)
    if verb in LEARNED and _is_learned_by_another(settings):
        with suppress(Unreachable):
            return ask_service(settings["listen"], verb, parameters)
    return answer_here()


def _is_learned_by_another(settings: Settings) -> bool:
    """Return whether the collector has saved a clock beside the store, and this user cannot read it."""
    path = sqlite_path(settings["store"])
    kept = [] if path is None else list(path.parent.glob(f"{path.name}.*.clock"))
    return bool(kept) and not any(os.access(one, os.R_OK) and one.stat().st_uid in (0, os.geteuid()) for one in kept)


def is_closed(settings: Settings) -> bool:
    """Return whether the store exists but this user cannot read it."""
    path = sqlite_path(settings["store"])
    try:
        return path is not None and bool(path.stat()) and not os.access(path, os.R_OK)
    except OSError as error:
        return isinstance(error, PermissionError)


def ask_service(listen: str, verb: str, parameters: Mapping[str, object]) -> Answer:
    """Return the service's answer to `/v1/VERB`, over its unix socket, or raise its error. Raises Unreachable without
    an answer.
    """
    from http.client import HTTPConnection, HTTPException

    given = {name: str(value) for name, value in parameters.items() if value is not None}
    connection = HTTPConnection("localhost", timeout=PATIENCE_S)
    try:
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(PATIENCE_S)
        connection.sock.connect(listen.removeprefix("unix:"))
        connection.request("GET", f"/v1/{verb}?{urlencode(given)}")
        document = json.loads(connection.getresponse().read())
    except (OSError, HTTPException, ValueError) as error:
        hint = "ask its operator to run batchcast serve, which answers users of a private store"
        why = f"you cannot read the store, and the service on {listen} does not answer ({error})"
        raise Unreachable(why, hint=hint) from None
    finally:
        connection.close()
    return answer_of(document)


_NUMERIC = ("_s", "_rate", "_50", "_90", "_share")
"""JSON's null in fields with these endings becomes NaN, which commands print as an unknown number."""


def answer_of(document: Mapping[str, Any]) -> Answer:
    """Convert a document of the HTTP API to an answer; raise its error as the class that its exit code names."""
    if "results" not in document:
        kind = KINDS.get(document.get("exit_code", 1), BatchcastError)
        raise kind(document.get("error", "no answer"), hint=document.get("try", ""))
    results = [
        {name: math.nan if value is None and name.endswith(_NUMERIC) else value for name, value in result.items()}
        for result in document["results"]
    ]
    return Answer(document["log"], document["settings"], document["warnings"], results)
