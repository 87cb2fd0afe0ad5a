# SPDX-License-Identifier: Apache-2.0
"""One HTTP connection under uvicorn, with limits on time and size that a broken client cannot pass.

uvicorn knows who connected only by address and waits for a request as long as it takes. Here a request, head and body,
must be there within `REQUEST_S` in all, however its bytes are dripped in; an answer that nobody takes is given up after
`TAKEN_S`; and each user has so many connections (`admission`).

What is asked most is answered as its bytes come in, past everything that HTTP needs in general: a submission waits for
its hint, and portals ask when a job starts, job by job. Only a plain question, whole and in one piece, on a unix
socket, is answered so, word for word as the usual way does; anything else goes that way.
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
    """What is asked, and whether another question may come on the same connection."""

    target: str
    stays: bool


def plain_question(received: bytes) -> PlainQuestion | None:
    r"""A whole plain question, after which nothing more has come; None where it goes the usual way.

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
    """The whole response; None where it goes the usual way: nothing at hand yet, a proxy, who asks too fast."""
    begun = time.perf_counter()
    is_hint = target.startswith(HINT)
    if peer.is_proxy or peer.viewer.name is None or (queue := service.queue_cache.latest(is_hint)) is None:
        return None
    if service.admission.wait_for(peer.viewer) > 0:
        return None
    if (found := api.reply_from_snapshot(service.settings, target, peer.viewer, queue)) is None:
        service.admission.give_back(peer.viewer)  # the usual way counts it
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
    """A whole response with a JSON document, and, unless the connection `stays`, its end.

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
"""How long a connection stays after an answer, as uvicorn's own do."""
HEAD_BYTES = 16 * 1024


class Connection(H11Protocol):
    """One connection. Refused with a document, never with silence, as long as anybody listens."""

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
        transport.set_write_buffer_limits(high=0)  # one byte that is not taken is enough to be told of
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
        if self._resting:  # the first byte of a question that goes the usual way
            self._resting = False
            self._limit(REQUEST_S, self._too_slow)
        idle = self._is_idle()
        super().data_received(data)
        if self._has_request():
            self._limit(None)
        elif idle and self._timer is None:  # the first byte of the next request on this connection
            self._limit(REQUEST_S, self._too_slow)

    def _answered_at_once(self, data: bytes) -> bool:
        """Whether this was a plain question, and is answered."""
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
            self._limit(LAST_WORD_S, self.transport.close)  # answered before its body was there: nobody reads that now

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait_to_be_taken(True)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._wait_to_be_taken(False)

    def _wait_to_be_taken(self, waits: bool) -> None:
        """A clock of its own: it goes on after the answer's end, and while the connection is being closed."""
        if self._taken is not None:
            self._taken.cancel()
        self._taken = self.loop.call_later(TAKEN_S, self.transport.abort) if waits else None

    def shutdown(self) -> None:
        """The server stops: what is being asked is answered, also a request that is still on its way."""
        if self.cycle is None and not self.transport.is_closing():
            self._limit(LAST_WORD_S, self.transport.close)
            self._unset_keepalive_if_required()
            return
        super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP, or too long a head."""
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
        """A document past the application, and the end of the connection."""
        if self.transport.is_closing():
            return
        unanswered = self._is_idle() or not self.cycle.response_started
        if unanswered and self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE, h11.ERROR):
            self.transport.write(problem_bytes(status, what, hint))
        self.transport.close()
