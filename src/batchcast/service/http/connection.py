# SPDX-License-Identifier: Apache-2.0
"""One HTTP connection under uvicorn, with limits on time and size that no client can exceed.

uvicorn knows a client only by its address and waits for a request without a limit. Here a request must be complete
within `REQUEST_S`, an answer that the client does not read is dropped after `TAKEN_S`, and each user has a maximum
number of connections (`admission`).

The most frequent questions are answered as their bytes arrive, without uvicorn's general processing: a submission waits
for its hint, and portals ask for starts job by job. This applies to plain questions that arrive in one piece on a unix
socket. The answer is the same to the byte; all other questions are processed as usual.
"""

from __future__ import annotations

import asyncio
import re
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from ..http import api
from .admission import Admission, Peer
from .api import PROBLEM, problem_bytes

if TYPE_CHECKING:
    from .app import Service

HINT, START = "/v1/hint", "/v1/start"
_WHOLE = re.compile(
    rb"GET (/v1/(?:hint|start)\?[!-~]{1,1900}) HTTP/1\.([01])\r\n"
    rb"((?:(?:Host: localhost|Connection: close|Connection: keep-alive|Accept: \*/\*|User-Agent: [ -~]{0,200})\r\n)*)"
    rb"\r\n"
)


class PlainQuestion(NamedTuple):
    """The question, and whether the connection stays open for another one."""

    target: str
    stays: bool


def plain_question(received: bytes) -> PlainQuestion | None:
    r"""Return a complete plain question if nothing follows it; None if it is to be processed as usual.

    >>> tuple(plain_question(b"GET /v1/hint?user=ada HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
    ('/v1/hint?user=ada', False)
    >>> plain_question(b"GET /v1/start?job=4 HTTP/1.1\r\nHost: localhost\r\n\r\n").stays
    True
    >>> parts = (b"GET /v1/hint?user=ada HTTP/1.0\r\nCookie: x\r\n\r\n", b"GET /v1/hint?user=ada HT")
    >>> [plain_question(received) for received in parts]
    [None, None]
    """
    match = _WHOLE.fullmatch(received)
    if match is None:
        return None
    return PlainQuestion(match[1].decode("ascii"), match[2] == b"1" and b"close" not in match[3])


def fast_answer(service: Service, peer: Peer, target: str, stays: bool = False) -> bytes | None:
    """Return the complete response; None if the question is to be processed as usual."""
    begun = time.perf_counter()
    is_hint = target.startswith(HINT)
    if peer.is_proxy or peer.viewer.name is None or (queue := service.queue_cache.latest(is_hint)) is None:
        return None
    if service.admission.wait_for(peer.viewer) > 0:
        return None
    if (found := api.reply_from_snapshot(service.settings, target, peer.viewer, queue)) is None:
        service.admission.give_back(peer.viewer)  # the usual processing counts it
        return None
    took = time.perf_counter() - begun
    place = HINT if is_hint else START
    service.measures.request(place, found.status, took)
    if not service.quiet or found.status >= 500:
        service.log(
            "request", user=peer.viewer.name, method="GET", path=place, status=found.status, ms=round(1000 * took, 1)
        )
    tag = service.tag(target, peer.viewer) if found.status == 200 else None
    return response(*found, stays=stays, tag=tag)


def response(status: int, body: str, stays: bool = False, tag: str | None = None) -> bytes:
    """Return a complete response with a JSON document; it closes the connection unless it `stays`.

    >>> response(200, "{}").splitlines()[0]
    b'HTTP/1.1 200 OK'
    """
    kind, document = "application/json" if status == 200 else PROBLEM, body.encode()
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {kind}\r\nContent-Length: {len(document)}\r\n"
        f"Cache-Control: private, no-cache\r\nX-Content-Type-Options: nosniff\r\n"
        f"{f'ETag: {tag}' + _END_OF_LINE if tag else ''}{'' if stays else _END}\r\n"
    )
    return head.encode("ascii") + document


_END_OF_LINE = "\r\n"
_END = "Connection: close\r\n"

REQUEST_S = 10.0
TAKEN_S = 30.0
LAST_WORD_S = 1.0
REST_S = 5.0
"""How long an idle connection stays open after an answer, as in uvicorn."""
HEAD_BYTES = 16 * 1024


class Connection(H11Protocol):
    """One connection. Refusals are sent as documents, as long as the client reads."""

    def __init__(
        self,
        admission: Admission,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.admission = admission
        self.peer: Peer | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._taken: asyncio.TimerHandle | None = None
        self._resting = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.peer = peer = self.admission.admitted(transport.get_extra_info("socket").fileno())
        self.app_state = {**self.app_state, "peer": peer}
        transport.set_write_buffer_limits(high=0)  # so that even one unread byte is reported
        self._limit(REQUEST_S, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        self._limit(None)
        self._wait_to_be_taken(False)
        if self.peer is not None:
            self.admission.leave(self.peer)
            self.peer = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self.cycle is None and self._answered_at_once(data):
            return
        if self._resting:  # the first byte of a question to be processed as usual
            self._resting = False
            self._limit(REQUEST_S, self._too_slow)
        idle = self._is_idle()
        super().data_received(data)
        if self._has_request():
            self._limit(None)
        elif idle and self._timer is None:  # the first byte of the next request on this connection
            self._limit(REQUEST_S, self._too_slow)

    def _answered_at_once(self, data: bytes) -> bool:
        """Answer a plain question; return whether the data was one."""
        question = plain_question(data)
        if question is None or self.peer is None or self.conn.trailing_data[0] or self._timer is None:
            return False
        stays = question.stays and not self.admission.closing
        answer = fast_answer(self.app_state["service"], self.peer, question.target, stays)
        if answer is None:
            return False
        self.transport.write(answer)
        if not stays:
            self.transport.close()
            return True
        self._resting = True
        self._limit(REST_S, self.transport.close)
        return True

    def on_response_complete(self) -> None:
        self._limit(None)
        super().on_response_complete()
        if self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY:
            self._limit(LAST_WORD_S, self.transport.close)  # nobody reads the rest of the body

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait_to_be_taken(True)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._wait_to_be_taken(False)

    def _wait_to_be_taken(self, waits: bool) -> None:
        """Run a separate timer that continues after the end of the answer and while the connection is closed."""
        if self._taken is not None:
            self._taken.cancel()
        self._taken = self.loop.call_later(TAKEN_S, self.transport.abort) if waits else None

    def shutdown(self) -> None:
        """Stop after present questions are answered, including a request that is still arriving."""
        if self.cycle is None and not self.transport.is_closing():
            self._limit(LAST_WORD_S, self.transport.close)
            self._unset_keepalive_if_required()
            return
        super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Refuse data that is not HTTP, or a head that is too long."""
        self._refuse(400, "not a request this server understands", f"HTTP/1.1, a head below {HEAD_BYTES // 1024} kB")

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _has_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body

    def _limit(self, seconds: float | None, then: Any = None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, then)

    def _too_slow(self) -> None:
        self.admission.refused["slow"] += 1
        self._refuse(408, f"the request was not there within {REQUEST_S:.0f} s", "send it in one go")

    def _refuse(self, status: int, what: str, hint: str) -> None:
        """Send an error document without the application, and close the connection."""
        if self.transport.is_closing():
            return
        unanswered = self._is_idle() or not self.cycle.response_started
        if unanswered and self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE, h11.ERROR):
            self.transport.write(problem_bytes(status, what, hint))
        self.transport.close()
