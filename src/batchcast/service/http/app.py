# SPDX-License-Identifier: Apache-2.0
"""The Starlette application: the API under /v1, the web pages, and one log line per request."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ipaddress
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...errors import BatchcastError
from ..answers.disclosure import Viewer
from ..answers.forecaster import renew
from ..child_process import KeptChild
from ..log import Log
from ..operations.metrics import ServiceMetrics, store_readings
from ..page import routes as page_routes
from ..settings import Settings
from . import api
from .admission import Admission, InvalidToken, Peer, Tokens, token_in
from .api import PROBLEM, Cost, description, problem, status_of
from .snapshot import AnswerCache, QueueCache
from .work_queue import Asker, WorkQueues, asker_of, while_asked

SAME_FOR_S = 60.0
HEALTH_FOR_S = 60.0
BODY_BYTES = 400_000
HEAD_BYTES = 16 * 1024
Written = tuple[int, bytes, list[tuple[bytes, bytes]]]
"""An answer that is ready to be sent: status, body and headers."""


class TooLarge(BatchcastError):
    """The request body is longer than the longest accepted script."""

    status = 413


class Service:
    """State that all handlers share: settings, admission control, work queues, the queue cache and metrics."""

    def __init__(self, settings: Settings, admission: Admission, log: Log) -> None:
        self.settings, self.admission, self.log = settings, admission, log
        self.queues = WorkQueues()
        self.clock = KeptChild(partial(renew, settings))
        self.queue_cache = QueueCache(settings, log)
        self.answer_cache = AnswerCache[Written]()
        self.measures = ServiceMetrics()
        self.bearers = Tokens(lambda: settings["store"])
        self.streams: Counter[str] = Counter()
        self.page_cache: dict[tuple[str, bool], tuple[float, dict[str, Any]]] = {}
        self._health: tuple[float, api.Reply] | None = None
        self._examined: asyncio.Task[api.Reply] | None = None

    async def begin(self) -> None:
        """Read the queue before the first request. An error of the store is ignored here, because each request reports
        it.
        """
        with contextlib.suppress(BatchcastError):
            await self.queue_cache.queue()

    async def is_still(self, request: Request) -> bool:
        """Return whether the request still belongs to the same viewer. A token can be revoked or expire during a long
        answer.
        """
        try:
            return bool(await request.state.viewer_now() == request.state.viewer)
        except BatchcastError:
            return False

    def tag(self, target: str, viewer: Viewer) -> str | None:
        """Return a weak ETag, which stays equal for the same question by the same user within a minute."""
        version = self.queue_cache.version()
        if version is None:
            return None
        what = f"{target}|{viewer.name}|{viewer.sees_all}|{version}|{time.time() // SAME_FOR_S}"
        return f'W/"{hashlib.blake2s(what.encode(errors="replace"), digest_size=12).hexdigest()}"'

    async def reply(self, target: str, viewer: Viewer, asker: Asker) -> api.Reply:
        """Answer an API request in the event loop, in a work queue or in a child process, by the cost of its
        endpoint.
        """
        ask = partial(api.reply, self.settings, target, viewer)
        path, _, parameters = target.partition("?")
        endpoint = api.ENDPOINTS.get(path.rstrip("/"))
        cost = endpoint and endpoint.cost
        if cost is Cost.EVERYTHING and not parameters:
            return await self._healthy(ask)
        if cost is Cost.LOADED_CLOCK:
            return await self.clock.run(ask)
        if cost in (Cost.HISTORY, Cost.EVERYTHING):
            return await self.queues.heavy.run(asker, ask)
        queue = self.queue_cache.latest() if cost is Cost.OLD_QUEUE else None
        if cost is Cost.QUEUE:
            with contextlib.suppress(BatchcastError):
                queue = await self.queue_cache.queue()
        if queue is not None and (here := api.reply_from_snapshot(self.settings, target, viewer, queue)):
            return here
        return await self.queues.quick.run(asker, partial(ask, records=self.queue_cache.records()))

    async def _healthy(self, ask: Callable[[], api.Reply]) -> api.Reply:
        """Compute the state at most once a minute, and share the result among all requests that wait for it."""
        if self._health is not None and time.monotonic() - self._health[0] < HEALTH_FOR_S:
            return self._health[1]
        if self._examined is None or self._examined.done():
            self._examined = asyncio.create_task(self._examine(ask))
        return await asyncio.shield(self._examined)

    async def _examine(self, ask: Callable[[], api.Reply]) -> api.Reply:
        """Compute the state of the store in the work queue for checks, and remember the state."""
        answer = await self.queues.watch.run(Asker("health", "health"), ask)
        self._health = (time.monotonic(), answer)
        return answer


def application(settings: Settings, admission: Admission, log: Log, *, quiet: bool, is_tcp: bool) -> ASGIApp:
    """Return the complete application: the routes, with limits and the log around them."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, Any]]:
        service = app.state.service = Service(settings, admission, log)
        first = asyncio.create_task(service.begin())  # runs in the background, so that the first request need not wait
        yield {"service": service}
        first.cancel()
        await service.clock.close()

    inner = Starlette(
        routes=[
            Route("/v1/openapi.json", _openapi, methods=["GET"]),
            Route("/metrics", _metrics, methods=["GET"]),
            Mount("/v1", routes=[Route("/{rest:path}", _answer, methods=["GET"])]),
            *page_routes(),
        ],
        lifespan=lifespan,
        exception_handlers=dict.fromkeys((HTTPException, ClientDisconnect, BatchcastError, Exception), _wrong),
    )
    return _Frame(inner, admission, log, quiet, is_tcp)


_IN_MEMORY = {
    path: endpoint for path, endpoint in api.ENDPOINTS.items() if endpoint.cost in (Cost.OLD_QUEUE, Cost.QUEUE)
}
_PLAIN_HEADERS = frozenset({b"host", b"connection", b"accept", b"accept-encoding", b"user-agent"})


async def _answer(request: Request) -> Response:
    """Answer a request to the API. If the answer is the same as before (ETag), the response has no body."""
    service, viewer = request.state.service, request.state.viewer
    query = request.scope["query_string"].decode("ascii", "replace")
    target = request.scope["raw_path"].decode("ascii", "replace") + (f"?{query}" if query else "")
    tag = service.tag(target, viewer)
    if tag is not None and tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers={"ETag": tag})
    answer = await while_asked(request, service.reply(target, viewer, request.state.asker))
    kind = "application/json" if answer.status == 200 else PROBLEM
    headers = {"ETag": tag} if tag is not None and answer.status == 200 else {}
    return Response(answer.body, answer.status, headers, kind)


async def _openapi(request: Request) -> Response:
    """Return the OpenAPI description of the API."""
    return Response(description(), media_type="application/json")


async def _metrics(request: Request) -> Response:
    """Return the metrics for Prometheus, with present values from the store."""
    service: Service = request.state.service
    service.measures.renew(service.settings, service.log)
    read = await service.queues.quick.run(request.state.asker, partial(store_readings, service.settings))
    text = service.measures.text(service.admission.open, service.admission.refused, read)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


async def _wrong(request: Request, error: Exception) -> Response:
    """Return the document of an error. Status 499, for a client that has disconnected, is not a server error in log and
    metrics.
    """
    match error:
        case HTTPException(status_code=404):
            places = ", ".join([*api.ENDPOINTS, "/v1/openapi.json", "/metrics", "/"])
            return _document(404, f"no {request.url.path[:80]}", f"accepted: {places}", exit_code=3)
        case HTTPException(status_code=405):
            return _document(405, f"{request.method} is not allowed here", "GET", error.headers, exit_code=2)
        case HTTPException():
            return _document(error.status_code, error.detail, "a form with the fields of the page")
        case ClientDisconnect():
            return _document(499, "the client closed the connection before its request was complete", "ask again")
        case BatchcastError():
            return _document(status_of(error), error.message, error.hint)
    return _document(500, f"unexpected {type(error).__name__}", "the server's own log")


def _broken(what: str, hint: str) -> Response:
    """Refuse a malformed request and close the connection, because it is unknown where the next request begins."""
    return _document(400, what, hint, {"Connection": "close"})


def _written(reply: api.Reply, tag: str | None) -> Written:
    """Return the status, the body and the headers of an answer from memory."""
    body = reply.body.encode() if isinstance(reply.body, str) else reply.body
    headers = [
        (b"content-type", b"application/json" if reply.status == 200 else PROBLEM.encode()),
        (b"content-length", str(len(body)).encode()),
        *([(b"etag", tag.encode())] if tag and reply.status == 200 else []),
        *_ALWAYS[:2],  # the other headers are for pages, and each header costs time
    ]
    return reply.status, body, headers


class _Frame:
    """Answers plain questions from memory. Checks host, size and rate of every other request, measures its time, and
    logs it. An unexpected exception is logged and ends only the answer to this request.
    """

    def __init__(self, inner: Starlette, admission: Admission, log: Log, quiet: bool, is_tcp: bool) -> None:
        self.inner, self.admission, self.log, self.quiet, self.is_tcp = inner, admission, log, quiet, is_tcp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = _IN_MEMORY.get(scope.get("path", ""))
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
        elif endpoint is None or not (replied := self._reply_from_memory(scope, endpoint)):
            await self._process(scope, receive, send)
        else:
            status, body, headers = replied
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body})

    def _reply_from_memory(self, scope: Scope, endpoint: api.Endpoint) -> Written | None:
        """Return status, body and headers of an answer from memory; None if the general processing has to answer.

        Answers to plain questions must be fast: a submission waits for its hint, and portals query starts job by job. A
        plain question is a GET request by a user of this machine without headers that could change its answer. The
        general processing gives the same answers to plain questions.
        """
        begun = time.perf_counter()
        peer: Peer = scope["state"]["peer"]
        service: Service = scope["state"]["service"]
        viewer = peer.viewer
        if peer.is_proxy or viewer.name is None or scope["method"] != "GET" or not scope["query_string"]:
            return None
        if not _PLAIN_HEADERS.issuperset(name for name, _ in scope["headers"]):
            return None
        queue = service.queue_cache.latest(endpoint.cost is Cost.OLD_QUEUE)
        if queue is None or self.admission.wait_for(viewer) > 0:
            return None
        question = scope["path"], scope["query_string"], viewer
        if (replied := service.answer_cache.get(queue, question)) is None:
            target = f"{scope['path']}?{scope['query_string'].decode('ascii', 'replace')}"
            if (reply := api.reply_from_snapshot(service.settings, target, viewer, queue)) is None:
                self.admission.give_back(viewer)  # the general processing counts the request again
                return None
            replied = _written(reply, service.tag(target, viewer))
            if reply.status == 200:
                service.answer_cache.keep(question, replied, len(replied[1]))
        self._note(scope, viewer, replied[0], begun, service)
        return replied

    def _note(self, scope: Scope, viewer: Viewer, status: int, begun: float, service: Service | None) -> None:
        """Count one answered request in the service's metrics, and write its log line."""
        took = time.perf_counter() - begun
        if service is not None:
            service.measures.request(_place(scope["path"]), status, took)
        if not self.quiet or status >= 500:
            answered = {"method": scope["method"], "path": scope["path"], "status": status, "ms": round(1000 * took, 1)}
            self.log("request", user=viewer.name or None, **answered)

    async def _process(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Process a request in the general way: identify its user, check it, and pass it on to the routes."""
        begun, status = time.perf_counter(), 0
        request = Request(scope)
        peer: Peer = scope["state"]["peer"]
        viewer, wrong = peer.viewer, None
        try:
            viewer = await self._viewer(request, peer)
        except BatchcastError as error:
            wrong = _not_known(error)
        scope["state"] |= {"viewer": viewer, "asker": asker_of(viewer, peer)}
        scope["state"]["viewer_now"] = partial(self._viewer, request, peer)

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_ALWAYS]
            await send(message)

        left = BODY_BYTES

        async def bounded() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise TooLarge(f"more than {BODY_BYTES // 1000} kB", hint="the script's first lines are enough")
            return message

        try:
            refusal = self._refusal(request, viewer) or wrong
            if refusal is not None:
                await refusal(scope, receive, noted)
            else:
                await self.inner(scope, bounded, noted)
        except asyncio.CancelledError:  # the service stops before the answer is complete: no defect
            if not self.admission.closing or status:
                raise
            await _document(503, "the service is being restarted", "ask again")(scope, receive, noted)
        except Exception as error:  # a defect must not end the server; `_wrong` has sent the answer
            words = f"{type(error).__name__}: {error}"
            self.log("defect", words, level="error", user=viewer.name or None, path=scope["path"])
        finally:
            self._note(scope, viewer, status, begun, scope["app"].state.service if "app" in scope else None)

    async def _viewer(self, request: Request, peer: Peer) -> Viewer:
        """Return the viewer: the user that a trusted proxy names, else the token's user, else the connection's user."""
        header = self.admission.settings["proxy_header"]
        spoken = self.admission.spoken_for(peer, request.headers.get(header) if header else None)
        if spoken is not peer.viewer or (token := token_in(request.headers.get("authorization"))) is None:
            return spoken
        service: Service = request.scope["state"]["service"]
        return await service.bearers.viewer(token)

    def _refusal(self, request: Request, viewer: Viewer) -> Response | None:
        """Return a response that refuses this request without processing it; None if the request is accepted."""
        if not request.scope["http_version"].startswith("1."):
            return _broken(f"HTTP/{request.scope['http_version']} is not supported", "HTTP/1.1")
        if sum(len(name) + len(value) + 4 for name, value in request.scope["headers"]) > HEAD_BYTES:
            return _document(431, "the request head is too large", f"below {HEAD_BYTES // 1024} kB")
        proxy_header = self.admission.settings["proxy_header"]
        if proxy_header and len(request.headers.getlist(proxy_header)) > 1:
            # a proxy that appends its header to the client's would let the client choose the user
            return _broken(f"the request has {proxy_header} twice", "a proxy that replaces the header")
        if int(request.headers.get("content-length", 0)) > BODY_BYTES:
            return _document(413, f"more than {BODY_BYTES // 1000} kB", "the script's first lines are enough")
        if self.is_tcp and not _is_here(request.headers.get("host", "localhost")):
            return _document(403, "the request names another host", "http://localhost, from this machine")
        if "transfer-encoding" in request.headers and "content-length" in request.headers:
            return _broken("the request states two body lengths", "Content-Length, or chunks")
        if request.method == "POST" and request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return _document(403, "this form was sent by another web site", "the form on this server's own page")
        if (seconds := self.admission.wait_for(viewer)) > 0:
            header = {"Retry-After": str(int(seconds) + 1)}
            return _document(429, f"{viewer.name} sends too many questions per second", "wait a second", header)
        return None


_ALWAYS = [
    (b"cache-control", b"private, no-cache"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"form-action 'self'; frame-ancestors 'self'; base-uri 'none'",
    ),
]


def _not_known(error: BatchcastError) -> Response:
    """Return the refusal of a request with an invalid token. Such a request is never answered like a request without a
    token.
    """
    header = {"WWW-Authenticate": 'Bearer realm="batchcast", error="invalid_token"'}
    return _document(status_of(error), error.message, error.hint, header if isinstance(error, InvalidToken) else None)


def _document(
    status: int, what: str, hint: str, headers: Mapping[str, str] | None = None, exit_code: int = 1
) -> Response:
    """Return a response with the document of an error."""
    return Response(problem(status, what, hint, exit_code), status, headers, PROBLEM)


def _place(path: str) -> str:
    """Return the metrics label of a path; there are few labels."""
    first = path.split("/", 2)[1]
    return path.rstrip("/") if path.strip("/") in _API else f"/{first}" if first in _PAGES else "other"


_API = frozenset(path.strip("/") for path in api.ENDPOINTS)
_PAGES = frozenset({"metrics", *(getattr(route, "path", "").split("/", 2)[1] for route in page_routes())})


def _is_here(host: str) -> bool:
    """Return whether a Host header names this machine. Without this check, another web site could make a browser send
    requests to this service.
    """
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    try:
        return name == "localhost" or ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False
