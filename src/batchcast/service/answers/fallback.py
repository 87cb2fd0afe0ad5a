# SPDX-License-Identifier: Apache-2.0
"""Answers where the store cannot be read: by one gentle query to the batch system, or by the service's socket."""

from __future__ import annotations

import json
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
from ..answers import questions, track_record
from ..batch_system import open_scheduler
from ..settings import Settings
from .answer import Answer
from .disclosure import Site, Viewer, Whose, start_settings
from .start import start_answer


def start_by_scheduler(settings: Settings, ids: Sequence[str], user: str | None, why: str, now: float) -> Answer:
    """The batch system's own estimates for waiting jobs by id, or of a user; `why` there is no store."""
    scheduler = open_scheduler(settings)[0]
    try:
        seen = scheduler.job(",".join(ids)) if ids else scheduler.jobs_of(user)
    except Unreachable as error:
        raise Unreachable(f"{why}, and {error.message}", hint=error.hint or NEXT_STEP) from None
    waiting = [j for j in seen.jobs if j.state == "PENDING"]
    estimated = sum(j.expected_start == j.expected_start for j in waiting)
    if not estimated:
        queued = bool(waiting)
        whose = ", ".join(ids) or f"of {user}"
        says = f"gives no start for {', '.join(ids) or user}" if queued else f"knows no waiting job {whose}"
        hint = "batchcast start --me" if ids else "batchcast start -u NAME"
        if queued:
            hint = "the same in a minute; where batchcast collect keeps a store, every waiting job has a forecast"
        raise NoAnswer(f"{why}, and the scheduler itself {says}", hint=hint)
    blank: dict[str, Any] = {"point_s": None, "method": None, "grounds": None}
    blank["basis"] = "the scheduler's own estimate; no history is kept here"
    # one row a waiting job: whoever counts the rows takes a job that is left out for one that does not wait
    results = [
        {**start_answer({**j._asdict(), **j.asked, **blank}, now), **track_record.record_fields({})} for j in waiting
    ]
    notes = [why + ": asked the scheduler once instead"]
    if without := len(waiting) - estimated:
        notes.append(f"the scheduler gives no start for {without} of {len(waiting)} waiting jobs")
    return Answer({}, start_settings(settings, now), notes, results)


NEXT_STEP = "batchcast doctor checks every part"
DAYS = 30
_ONCE = ": asked the scheduler once instead"


def walltime(
    settings: Settings, what: str | None, glob: str | None, user: str, viewer: Viewer, risk: float, now: float, why: str
) -> Answer:
    """A limit and a memory request from one query to accounting, without a store."""
    with _one_question(settings, user, now - DAYS * 86400, viewer, now, why, memory=True) as site:
        reply = questions.walltime_of(site, what, glob, user, risk)
    return reply._replace(warnings=[f"{why}{_ONCE}, for the last {DAYS} days"])


def report(settings: Settings, who: Whose, since: float, until: float, viewer: Viewer, now: float, why: str) -> Answer:
    """`ask.report` for one user from one question to accounting; groups need a store."""
    if who.user is None:
        of = " ".join(f"{flag} {name}" for flag, name in (("-A", who.account), ("-p", who.partition)) if name)
        hint = f"batchcast report --months user {of}, or --each: these ask accounting alone"
        raise NoStore(f"{why}, and without one only a user's own jobs are summed up", hint=hint)
    with _one_question(settings, who.user, since, viewer, now, why) as site:
        reply = questions.report_of(site, who, since, until)
    return reply._replace(warnings=[why + _ONCE])


@contextmanager
def _one_question(
    settings: Settings, user: str, since: float, viewer: Viewer, now: float, why: str, memory: bool = False
) -> Iterator[Site]:
    """A store of what accounting says of one user's jobs from `since` on, thrown away afterwards.

    What they held comes with them on request: a slower question, and one more about how it is measured.

    Accounting itself decides whose jobs it shows, so no rule of ours is laid over it.
    """
    from ...store.reader import Reader
    from ...store.sighted import write_once

    try:
        scheduler = open_scheduler(settings)[0]
        seen = scheduler.history_of(user, since, now, memory=memory)
    except Unreachable as error:
        raise Unreachable(f"{why}, and {error.message}", hint=error.hint or NEXT_STEP) from None
    with tempfile.TemporaryDirectory(prefix="batchcast-") as place:
        write_once(Path(place) / "store.db", "here", seen.jobs, now)
        gathers = getattr(scheduler, "gathers", None)
        known = {"site": {"gathers": gathers}} if gathers else {}
        with Reader(str(Path(place) / "store.db")) as reader:
            yield Site(reader, "here", known, False, settings, viewer, now, days=(now - since) / 86400)


PATIENCE_S = 60.0
LEARNED = ("test", "where", "walltime", "report")
"""Verbs whose answers rest on the clock that the collector keeps beside the store."""
_KINDS: dict[int, type[BatchcastError]] = {1: Refused, 2: UsageError, 3: NoAnswer, 4: Unreachable}


def answer_or_ask_service(
    settings: Settings, verb: str, parameters: Mapping[str, object], here: Callable[[], Answer]
) -> Answer:
    """The answer from the store, or, where that is closed to this user, from the service's socket.

    What rests on what the collector has learned is asked of the service too where only that may read it: so the page
    and this user's terminal say the same. If the service does not answer, it is learned anew here.
    """
    if "/" not in settings["listen"]:
        return here()
    if is_closed(settings):
        return ask_service(settings["listen"], verb, parameters)
    if verb in LEARNED and _is_learned_by_another(settings):
        with suppress(Unreachable):
            return ask_service(settings["listen"], verb, parameters)
    return here()


def _is_learned_by_another(settings: Settings) -> bool:
    """Whether a clock is kept beside the store that this user may not read."""
    path = sqlite_path(settings["store"])
    kept = [] if path is None else list(path.parent.glob(f"{path.name}.*.clock"))
    return bool(kept) and not any(os.access(one, os.R_OK) and one.stat().st_uid in (0, os.geteuid()) for one in kept)


def is_closed(settings: Settings) -> bool:
    """Whether there is a store of which this user may not read anything."""
    path = sqlite_path(settings["store"])
    if path is None:
        return False
    try:
        path.stat()
    except PermissionError:
        return True
    except OSError:
        return False
    return not os.access(path, os.R_OK)


def ask_service(listen: str, verb: str, parameters: Mapping[str, object]) -> Answer:
    """The document of `/v1/VERB` on a unix socket. Its errors are raised as what they are; Unreachable without one."""
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
        raise Unreachable(
            f"the store is closed to you, and the service on {listen} does not answer ({error})",
            hint="ask its operator: batchcast serve gives users their answers where the store is private",
        ) from None
    finally:
        connection.close()
    return answer_of(document)


def answer_of(document: Mapping[str, Any]) -> Answer:
    """A document of the HTTP API as an answer; its error is raised as what it is."""
    if "results" not in document:
        kind = _KINDS.get(document.get("exit_code", 1), BatchcastError)
        raise kind(document.get("error", "no answer"), hint=document.get("try", ""))
    return Answer(
        document["log"], document["settings"], document["warnings"], [_numbers(r) for r in document["results"]]
    )


def _numbers(result: Mapping[str, object]) -> dict[str, object]:
    """JSON's null for an unknown number as the verbs print it."""
    return {
        name: float("nan") if value is None and name.endswith(("_s", "_rate", "_50", "_90", "_share")) else value
        for name, value in result.items()
    }
