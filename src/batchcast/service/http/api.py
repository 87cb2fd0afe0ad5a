# SPDX-License-Identifier: Apache-2.0
"""The HTTP API without sockets: maps path and parameters of a GET request to a status and a JSON document.

Errors are documents with the members that RFC 9457 requires, and with those of batchcast's own documents. The OpenAPI
3.1 description is generated from `ENDPOINTS`.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from ...document import compact, document, dumps
from ...errors import BatchcastError, NoAnswer, Refused, Unreachable, UsageError
from ...formats.slurm.sbatch import HEARD, INPUTS, Request
from ...store.reader import TooLong
from ...units import parse_duration, parse_memory, parse_share
from ...version import __version__
from ..answers import questions
from ..answers.advice import rules_of
from ..answers.answer import Answer, parse_when
from ..answers.disclosure import Viewer, Whose, open_site
from ..answers.questions import Hints, Like, QueueSnapshot
from ..answers.track_record import JOB_ID, RecordKey, TrackRecord
from ..settings import Settings

PROBLEM = "application/problem+json"
_TITLES = {499: "Client Closed Request"}
"""The non-standard status 499 appears only in the request log and in the metrics. It means that the client
disconnected, which is not an error of the server.
"""


def problem(status: int, what: str, hint: str, exit_code: int = 1) -> str:
    """Return the document of an error: what is wrong, and what to try next.

    >>> import json
    >>> json.loads(problem(404, "no /x", "accepted: /v1/start"))["title"]
    'Not Found'
    >>> json.loads(problem(499, "the client no longer waits for this answer", ""))["title"]
    'Client Closed Request'
    """
    title = _TITLES.get(status) or HTTPStatus(status).phrase
    members = {"type": "about:blank", "title": title, "status": status, "detail": what, "schema": "batchcast/error/1"}
    return dumps({**members, "error": what, "try": hint, "exit_code": exit_code})


def problem_bytes(status: int, what: str, hint: str) -> bytes:
    """Return the bytes of a complete error response, for connections whose request was not parsed."""
    body = problem(status, what, hint).encode()
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {PROBLEM}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


STATUS = ((Refused, 403), (NoAnswer, 404), (UsageError, 400), (Unreachable, 503), (TooLong, 503))
LONGEST = 6000
MOST_JOBS = 100


class Question(NamedTuple):
    """One question: its parameters, its viewer and time, and the data in the server's memory that may answer it.

    If `queue` is given, only this queue in memory answers the question; else the store does. Track records in `records`
    are not computed again.
    """

    settings: Settings
    parameters: Mapping[str, Sequence[str]]
    viewer: Viewer
    now: float
    records: Mapping[RecordKey, TrackRecord] | None = None
    queue: QueueSnapshot | None = None

    def value(self, name: str) -> str | None:
        """Return the value of a parameter; None if it is missing or empty. Raises UsageError if it was given several
        times.
        """
        values = self.parameters.get(name, ())
        if len(values) > 1:
            raise UsageError(f"{name} was given {len(values)} times (accepted: once)")
        return values[0] if values and values[0] else None


Handler = Callable[[Question], Answer | None]
"""A function that answers a question. It returns None only if the queue in memory lacks data that the answer needs."""


class Reply(NamedTuple):
    """The HTTP status and the JSON document of an answer."""

    status: int
    body: str | bytes


def reply(
    settings: Settings,
    target: str,
    viewer: Viewer,
    now: float | None = None,
    records: Mapping[RecordKey, TrackRecord] | None = None,
) -> Reply:
    """Answer a GET request for `target` (path and query) from the store. An error is also a document, with a hint on
    what to try next.
    """
    answered = _reply(target, Question(settings, {}, viewer, time.time() if now is None else now, records))
    assert answered is not None  # without a queue in memory, a handler returns an answer or raises
    return answered


def reply_from_snapshot(settings: Settings, target: str, viewer: Viewer, queue: QueueSnapshot) -> Reply | None:
    """Answer `/v1/start` or `/v1/hint` from memory, without reading a file, taking a lock or waiting.

    The result is None if the memory lacks data that an answer to `/v1/start` needs.
    """
    return _reply(target, Question(settings, {}, viewer, time.time(), queue=queue), compact)


def _reply(target: str, question: Question, write: Callable[[Any], str | bytes] = dumps) -> Reply | None:
    """Return the document of an answer or of its error; None if the handler returns None."""
    try:
        endpoint, parameters = _parse(target)
        answer = endpoint.answer(question._replace(parameters=parameters))
    except BatchcastError as error:
        return Reply(status_of(error), problem(status_of(error), error.message, error.hint, error.exit_code))
    return Reply(200, write(document(endpoint.verb, *answer))) if answer else None


def status_of(error: BatchcastError) -> int:
    """Return the HTTP status for an error of batchcast. The errors of the HTTP service state their own status."""
    return getattr(error, "status", 0) or next((code for kind, code in STATUS if isinstance(error, kind)), 500)


def _parse(target: str) -> tuple[Endpoint, Mapping[str, Sequence[str]]]:
    """Return the endpoint and the parameters of a request. Raises NoAnswer for an unknown path, UsageError for unknown
    parameters.
    """
    if len(target) > LONGEST:
        raise UsageError(f"the request is longer than {LONGEST} characters")
    try:
        parts = urlsplit(target)
        parameters = parse_qs(parts.query, keep_blank_values=True, max_num_fields=MOST_JOBS + 10)
    except ValueError as error:
        raise UsageError(f"not an address: {error}", hint="/v1/start?job=42") from None
    name = parts.path.rstrip("/")
    if name not in ENDPOINTS:
        raise NoAnswer(f"no {parts.path} (accepted: {', '.join(ENDPOINTS)})")
    accepted = ENDPOINTS[name].parameters
    if strange := sorted(set(parameters) - set(accepted)):
        raise UsageError(f"no parameter {strange[0]!r} (accepted: {', '.join(accepted) or 'none'})")
    if any("\0" in value for values in parameters.values() for value in values):
        raise UsageError("a name cannot contain a zero byte")
    return ENDPOINTS[name], parameters


class Cost(Enum):
    """The data that an answer needs, which decides where the server computes the answer."""

    OLD_QUEUE = "the queue in memory, however old it is: a submission waits for the answer"
    QUEUE = "the queue in memory, or the store"
    LOADED_CLOCK = "a clock and its models, which one child process keeps loaded"
    HISTORY = "much history, which a child process reads; such questions wait for each other"
    EVERYTHING = "a check of the whole store, which the server makes once a minute for everybody"


class Endpoint(NamedTuple):
    """One path of the API. The server, its limits, its metrics and the OpenAPI document use these entries."""

    verb: str
    parameters: tuple[str, ...]
    answer: Handler
    summary: str
    cost: Cost


ENDPOINTS: dict[str, Endpoint] = {}


def _endpoint(verb: str, cost: Cost, *parameters: str) -> Callable[[Handler], Handler]:
    """Return a decorator that adds a function `_NAME` to `ENDPOINTS` as `/v1/NAME`. Its docstring is the summary."""

    def added(answer: Handler) -> Handler:
        summary = (answer.__doc__ or "").rstrip(".")
        ENDPOINTS["/v1/" + answer.__name__.strip("_")] = Endpoint(verb, parameters, answer, summary, cost)
        return answer

    return added


@_endpoint("start", Cost.QUEUE, "job", "user")
def _start(question: Question) -> Answer | None:
    """When waiting jobs start: likely, by 90 %, why, and the track record of such answers."""
    ids = [word for value in question.parameters.get("job", ()) for word in value.split(",")]
    for job_id in ids[: MOST_JOBS + 1]:
        _check_id(job_id)
    if len(ids) > MOST_JOBS:
        raise UsageError(f"{len(ids)} jobs at once (accepted: up to {MOST_JOBS})")
    settings, viewer, now = question.settings, question.viewer, question.now
    user = question.value("user") or (None if ids else viewer.name)
    if not ids and user is None:
        raise UsageError("whose jobs? (accepted: job=ID, user=NAME)")
    if question.queue is not None:
        return questions.start_from_snapshot(settings, question.queue, ids, user, viewer, now)
    return questions.start_from_store(settings, ids, user, viewer, now, question.records)


@_endpoint("start", Cost.HISTORY, *HEARD, INPUTS)
def _test(question: Question) -> Answer:
    """When a job with this request would start, if the viewer submitted it now."""
    from ..answers.script import answer_options

    request = Request({name: question.value(name) or "" for name in question.parameters})
    return answer_options(question.settings, request, question.viewer, question.now)


@_endpoint("start", Cost.HISTORY, *HEARD, INPUTS, "by", "any-size", "spread")
def _where(question: Question) -> Answer:
    """Predicted starts of a job in every partition and with a few sizes, the earliest first."""
    from ..answers.script import answer_where

    by, now = question.value("by"), question.now
    flags = {name: question.value(name) or "no" for name in ("any-size", "spread")}
    if wrong := next((name for name, value in flags.items() if value not in ("yes", "no")), ""):
        raise UsageError(f"{wrong}={flags[wrong][:20]!r} (accepted: yes, no)")
    options = {name: question.value(name) or "" for name in question.parameters if name not in ("by", *flags)}
    any_size, spread = (value == "yes" for value in flags.values())
    deadline = parse_when(by, now) if by else None
    return answer_where(question.settings, Request(options), question.viewer, now, deadline, any_size, spread)


@_endpoint("choices", Cost.LOADED_CLOCK, "choice", "user")
def _choices(question: Question) -> Answer:
    """When a job would start with each choice of a form, in milliseconds: for portals."""
    from ..answers.forecaster import answer_choices

    choices, viewer = list(question.parameters.get("choice", ())), question.viewer
    return answer_choices(question.settings, choices, question.value("user") or viewer.name or "", viewer, question.now)


@_endpoint("walltime", Cost.HISTORY, "job", "name", "user", "risk", *HEARD, INPUTS)
def _walltime(question: Question) -> Answer:
    """A time limit and a memory request for the next similar job, with the reason."""
    job, glob = question.value("job"), question.value("name")
    options = {name: question.value(name) or "" for name in question.parameters if name in (*HEARD, INPUTS)}
    if (job is not None) + (glob is not None) + bool(options.get("job-name")) != 1 or (options and (job or glob)):
        raise UsageError("give one of job=ID, name=GLOB, or a script's options with job-name=NAME")
    if job is not None:
        _check_id(job)
    viewer = question.viewer
    user = question.value("user") or viewer.name
    if user is None and job is None:
        raise UsageError("whose jobs? (accepted: user=NAME)")
    risk = parse_share(question.value("risk") or "5%")
    request = Request(options) if options else None
    return questions.walltime(question.settings, job, glob, user or "", viewer, risk, question.now, request)


@_endpoint("report", Cost.HISTORY, "user", "account", "partition", "starttime", "endtime")
def _report(question: Question) -> Answer:
    """What finished jobs requested and used, and which flag to change."""
    account, partition = question.value("account"), question.value("partition")
    user = question.value("user") or (None if account or partition else question.viewer.name)
    if not (user or account or partition):
        raise UsageError("whose jobs? (accepted: user=NAME, account=NAME, partition=NAME)")
    whose = Whose(user, account, partition)
    return questions.report(question.settings, whose, *_span(question), question.viewer, question.now)


@_endpoint("accuracy", Cost.HISTORY, "partition", "starttime", "endtime")
def _accuracy(question: Question) -> Answer:
    """Past predictions compared with actual starts and with the scheduler's own predictions."""
    partition = question.value("partition")
    return questions.accuracy(question.settings, *_span(question), partition, question.viewer, question.now)


@_endpoint("hint", Cost.OLD_QUEUE, "user", "partition", "name", "ntasks", "time", "mem")
def _hint(question: Question) -> Answer:
    """Stored suggestions for similar jobs, answered at once, for job_submit.lua."""
    settings, viewer, now, queue = question.settings, question.viewer, question.now, question.queue
    if queue is not None:
        return questions.hint(settings, queue.cluster, queue.memory, queue.hints, _like(question), viewer, now)
    with open_site(settings, viewer, now) as site:
        hints = Hints(rules_of(settings))
        hints.learn(site.reader, site.cluster, site.memory)
        return questions.hint(settings, site.cluster, site.memory, hints, _like(question), viewer, now)


@_endpoint("doctor", Cost.EVERYTHING)
def _health(question: Question) -> Answer:
    """State of the store and the collector."""
    # the findings of `doctor` that need no query to a daemon; the document has no settings
    from ..operations.doctor import store_findings

    return Answer({}, {}, [], list(store_findings(question.settings)))


def _like(question: Question) -> Like:
    """Return the request of a job that is being submitted; the limit is in minutes or in any of Slurm's forms."""
    user = question.value("user") or question.viewer.name
    if user is None:
        raise UsageError("whose job? (accepted: user=NAME)")
    procs, limit = question.value("ntasks") or "1", question.value("time")
    if not re.fullmatch(r"\d{1,9}", procs):
        raise UsageError(f"ntasks={procs[:20]!r} is not a number of processors (accepted: ntasks=64)")
    span = parse_duration(limit) if limit else math.nan
    if limit and math.isnan(span):
        raise UsageError(f"time={limit[:20]!r} is not a time limit (accepted: minutes, or as sbatch takes it)")
    memory = parse_memory(question.value("mem") or "")
    return Like(user, question.value("partition") or "", question.value("name") or "", float(procs), span, memory)


def _span(question: Question) -> tuple[float, float]:
    """Return the beginning and the end of a question's time span: by default the last 30 days."""
    end = question.value("endtime")
    since = parse_when(question.value("starttime") or "now-30days", question.now)
    return since, parse_when(end, question.now) if end else math.inf


def _check_id(job_id: str) -> None:
    """Raise UsageError if a text is not a job id."""
    if not JOB_ID.fullmatch(job_id):
        raise UsageError(f"not a job id: {job_id[:40]!r} (accepted: 42, 42_7, 42+1)")


_MEANING = {
    "job": ("a job id: 42, 42_7, 42+1; several by commas", "42"),
    "user": ("a user's name; default: the user who asks", "alice"),
    "name": ("a job name, * and ? stand for anything", "relax*"),
    "ntasks": ("processors, a number", "64"),
    "time": ("the limit, in minutes or as sbatch takes it", "120"),
    "mem": ("the memory per node in the user's request: MiB, or as sbatch takes it", "16G"),
    INPUTS: ("features of the job's input files: a JSON object of numbers and texts", '{"encut": 400}'),
    "risk": ("the accepted share of jobs cut off at the limit", "5%"),
    "account": ("an account", "physics"),
    "partition": ("a partition", "main"),
    "starttime": ("from when: a date, now-30days", "now-30days"),
    "endtime": ("until when", "now"),
    "choice": ("sbatch's long options as a query of its own; up to 20 such parameters", "ntasks=4&time=240"),
    "by": ("a deadline in the future: rank by the probability to end by then", "now+6hours"),
    "spread": ("whether to add twenty equally likely waits and run times of each choice: yes or no", "no"),
    "any-size": ("whether half or twice the size may be ranked first: yes or no", "no"),
}
_ERRORS = {
    "400": "the question is not valid",
    "401": "the token is not valid",
    "403": "this user may not see the answer",
    "404": "there is no data for an answer",
    "405": "this HTTP method is not allowed",
    "429": "too many requests of one user",
    "503": "the store does not answer",
}


@cache
def description() -> str:
    """Return the OpenAPI document as JSON text."""
    return dumps(
        {
            "openapi": "3.1.0",
            "info": {"title": "batchcast", "version": __version__, "license": {"name": "Apache-2.0"}},
            "paths": {place: {"get": _operation(place, endpoint)} for place, endpoint in ENDPOINTS.items()},
            "security": [{}, {"token": []}],
            "components": {
                "schemas": {"Answer": _ANSWER, "Problem": _PROBLEM},
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            },
        }
    )


def _operation(place: str, endpoint: Endpoint) -> dict[str, Any]:
    """Return the OpenAPI description of one endpoint."""

    def body(kind: str, name: str) -> dict[str, Any]:
        return {"content": {kind: {"schema": {"$ref": f"#/components/schemas/{name}"}}}}

    wrong = {code: {"description": what, **body("application/problem+json", "Problem")}
             for code, what in _ERRORS.items()}  # fmt: skip
    name = place.rpartition("/")[2]
    right = {"description": f"batchcast/{endpoint.verb}/1", **body("application/json", "Answer")}
    return {
        "operationId": name,
        "summary": endpoint.summary,
        "parameters": [
            {"name": n, "in": "query", "required": False, "description": _meaning(n, name)[0],
             "schema": {"type": "string", "maxLength": LONGEST if n == INPUTS else 500,
                        "examples": [_meaning(n, name)[1]]}}
            for n in endpoint.parameters
        ],
        "responses": {"200": right, "304": {"description": "as before"}, **wrong},
    }  # fmt: skip


def _meaning(parameter: str, place: str) -> tuple[str, str]:
    """Return the meaning of a parameter and an example. The parameters of a script are sbatch's options."""
    of_script = place in ("test", "where", "walltime") and parameter in HEARD
    return (f"as sbatch's --{parameter}", "") if of_script else _MEANING[parameter]


def _schema(optional: Mapping[str, Any], required: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an object with these members."""
    return {"type": "object", "required": list(required), "properties": {**optional, **required}}


_TEXT, _WHOLE, _OBJECT = ({"type": kind} for kind in ("string", "integer", "object"))
_LISTS = {name: {"type": "array", "items": items} for name, items in (("warnings", _TEXT), ("results", _OBJECT))}
_ANSWER = _schema({}, {"schema": _TEXT, "log": _OBJECT, "settings": _OBJECT, **_LISTS})
_ERROR = {"title": _TEXT, "status": _WHOLE, "detail": _TEXT, "schema": {"const": "batchcast/error/1"}, "error": _TEXT}
_PROBLEM = _schema({"type": _TEXT}, {**_ERROR, "try": _TEXT, "exit_code": _WHOLE})
