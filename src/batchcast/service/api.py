"""The questions of `ask` as GET requests: path and parameters to a status and a JSON document. No sockets here."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from ..document import document, dumps
from ..errors import BatchcastError, NoAnswer, Refused, Unreachable, UsageError
from ..formats.sbatch import HEARD
from ..units import parse_duration, parse_share
from . import ask
from .access import Asker, Who, open_site
from .advice import rules_of
from .answers import JOB_ID, Part, Record
from .document import Said
from .hints import Hints, Like, Queue
from .problem import problem
from .settings import Settings
from .when import parse_when

STATUS = ((Refused, 403), (NoAnswer, 404), (UsageError, 400), (Unreachable, 503))
LONGEST = 2000
MOST_JOBS = 100


Given = Mapping[str, Sequence[str]]
Handler = Callable[[Settings, Given, Asker, float], Said]


class Reply(NamedTuple):
    """An HTTP status and a JSON document."""

    status: int
    body: str


def reply(
    settings: Settings,
    target: str,
    viewer: Asker,
    now: float | None = None,
    known: Mapping[Part, Record] | None = None,
) -> Reply:
    """The answer to GET `target` (path and query). Errors are documents too, with the next thing to try.

    Track records that are `known` need not be worked out for it.
    """
    try:
        verb, given, answer = _question(target)
        now = time.time() if now is None else now
        if answer is _start:
            answered = ask.start(settings, *_whose(given, viewer), viewer, now, known)
        else:
            answered = answer(settings, given, viewer, now)
    except BatchcastError as error:
        return Reply(status_of(error), problem(status_of(error), error.message, error.hint, error.exit_code))
    return Reply(200, dumps(document(verb, *answered)))


def from_memory(settings: Settings, target: str, viewer: Asker, queue: Queue) -> Reply | None:
    """The answer to `/v1/start` where a queue in memory holds all of it, else None: no file, no lock, no wait."""
    try:
        _, given, _ = _question(target)
        ids, user = _whose(given, viewer)
        answered = ask.from_memory(settings, queue, ids, user, viewer, time.time())
    except BatchcastError as error:
        return Reply(status_of(error), problem(status_of(error), error.message, error.hint, error.exit_code))
    return Reply(200, dumps(document("start", *answered), indent=None)) if answered else None


def hint_from_memory(settings: Settings, target: str, viewer: Asker, queue: Queue) -> Reply:
    """The answer to `/v1/hint` by what is in memory."""
    try:
        _, given, _ = _question(target)
        answered = ask.hint(
            settings, queue.cluster, queue.memory, queue.hints, _like(given, viewer), viewer, time.time()
        )
    except BatchcastError as error:
        return Reply(status_of(error), problem(status_of(error), error.message, error.hint, error.exit_code))
    return Reply(200, dumps(document("hint", *answered), indent=None))


def status_of(error: BatchcastError) -> int:
    """The HTTP status of an error."""
    return next((code for kind, code in STATUS if isinstance(error, kind)), 500)


def _question(target: str) -> tuple[str, Mapping[str, Sequence[str]], Handler]:
    """The verb, the parameters and who answers; UsageError for what is no question."""
    if len(target) > LONGEST:
        raise UsageError(f"the request is longer than {LONGEST} characters")
    try:
        parts = urlsplit(target)
        given = parse_qs(parts.query, keep_blank_values=True, max_num_fields=MOST_JOBS + 10)
    except ValueError as error:
        raise UsageError(f"not an address: {error}", hint="/v1/start?job=42") from None
    name = parts.path.rstrip("/")
    if name not in PLACES:
        raise NoAnswer(f"no {parts.path} (accepted: {', '.join(PLACES)})")
    verb, accepted, answer = PLACES[name]
    if strange := sorted(set(given) - set(accepted)):
        raise UsageError(f"no parameter {strange[0]!r} (accepted: {', '.join(accepted) or 'none'})")
    if any("\0" in value for values in given.values() for value in values):
        raise UsageError("a zero byte is part of no name")
    return verb, given, answer


def _whose(given: Given, viewer: Asker) -> tuple[list[str], str | None]:
    """The jobs, and the user, that are asked about."""
    ids = [word for value in given.get("job", ()) for word in value.split(",")]
    for job_id in ids[: MOST_JOBS + 1]:
        _check_id(job_id)
    if len(ids) > MOST_JOBS:
        raise UsageError(f"{len(ids)} jobs at once (accepted: up to {MOST_JOBS})")
    user = _one(given, "user") or (None if ids else viewer.name)
    if not ids and user is None:
        raise UsageError("whose jobs? (accepted: job=ID, user=NAME)")
    return ids, user


def _start(settings: Settings, given: Given, viewer: Asker, now: float) -> Said:
    return ask.start(settings, *_whose(given, viewer), viewer, now)


def _walltime(settings: Settings, given: Given, viewer: Asker, now: float) -> Said:
    job, glob = _one(given, "job"), _one(given, "name")
    if (job is None) == (glob is None):
        raise UsageError("give one of job=ID, name=GLOB")
    if job is not None:
        _check_id(job)
    user = _one(given, "user") or viewer.name
    if user is None and glob is not None:
        raise UsageError("whose jobs? (accepted: user=NAME)")
    return ask.walltime(settings, job, glob, user or "", viewer, parse_share(_one(given, "risk") or "5%"), now)


def _report(settings: Settings, given: Given, viewer: Asker, now: float) -> Said:
    account, partition = _one(given, "account"), _one(given, "partition")
    user = _one(given, "user") or (None if account or partition else viewer.name)
    if not (user or account or partition):
        raise UsageError("whose jobs? (accepted: user=NAME, account=NAME, partition=NAME)")
    return ask.report(settings, Who(user, account, partition), *_span(given, now), viewer, now)


def _accuracy(settings: Settings, given: Given, viewer: Asker, now: float) -> Said:
    return ask.accuracy(settings, *_span(given, now), _one(given, "partition"), viewer, now)


def _test(settings: Settings, given: Given, viewer: Asker, now: float) -> Said:
    from .whatif import answer_options

    return answer_options(settings, {name: _one(given, name) or "" for name in given}, viewer, now)


def _where(settings: Settings, given: Given, viewer: Asker, now: float) -> Said:
    from .where import answer_where

    by = _one(given, "by")
    options = {name: _one(given, name) or "" for name in given if name != "by"}
    return answer_where(settings, options, viewer, now, parse_when(by, now) if by else None)


def _hint(settings: Settings, given: Given, viewer: Asker, now: float) -> Said:
    with open_site(settings, viewer) as site:
        hints = Hints(rules_of(settings))
        hints.learn(site.reader, site.cluster, site.memory)
        return ask.hint(settings, site.cluster, site.memory, hints, _like(given, viewer), viewer, now)


def _like(given: Given, viewer: Asker) -> Like:
    """What a job that is being submitted asks for; its limit in minutes or in any of Slurm's forms."""
    user = _one(given, "user") or viewer.name
    if user is None:
        raise UsageError("whose job? (accepted: user=NAME)")
    procs, limit = _one(given, "ntasks") or "1", _one(given, "time")
    if not re.fullmatch(r"\d{1,9}", procs):
        raise UsageError(f"ntasks={procs[:20]!r} is no number of processors (accepted: ntasks=64)")
    span = parse_duration(limit) if limit else math.nan
    if limit and math.isnan(span):
        raise UsageError(f"time={limit[:20]!r} is no limit (accepted: minutes, or as sbatch takes it)")
    return Like(user, _one(given, "partition") or "", _one(given, "name") or "", float(procs), span)


def _health(settings: Settings, given: Given, viewer: Asker, now: float) -> Said:
    """The findings of `doctor` that need no daemon; the settings, with their places, are the operator's own."""
    from .checkup import store_findings

    return Said({}, {}, [], list(store_findings(settings)))


PLACES: dict[str, tuple[str, tuple[str, ...], Handler]] = {
    "/v1/start": ("start", ("job", "user"), _start),
    "/v1/test": ("start", HEARD, _test),
    "/v1/where": ("start", (*HEARD, "by"), _where),
    "/v1/walltime": ("walltime", ("job", "name", "user", "risk"), _walltime),
    "/v1/report": ("report", ("user", "account", "partition", "starttime", "endtime"), _report),
    "/v1/accuracy": ("accuracy", ("partition", "starttime", "endtime"), _accuracy),
    "/v1/hint": ("hint", ("user", "partition", "name", "ntasks", "time"), _hint),
    "/v1/health": ("doctor", (), _health),
}
"""What is served: the verb whose document it is, the parameters, and who answers."""


def _one(given: Mapping[str, Sequence[str]], name: str) -> str | None:
    values: Any = given.get(name, ())
    if len(values) > 1:
        raise UsageError(f"{name} was given {len(values)} times (accepted: once)")
    return values[0] if values and values[0] else None


def _span(given: Mapping[str, Sequence[str]], now: float) -> tuple[float, float]:
    end = _one(given, "endtime")
    since = parse_when(_one(given, "starttime") or "now-30days", now)
    return since, parse_when(end, now) if end else math.inf


def _check_id(job_id: str) -> None:
    if not JOB_ID.fullmatch(job_id):
        raise UsageError(f"not a job id: {job_id[:40]!r} (accepted: 42, 42_7, 42+1)")
