# SPDX-License-Identifier: Apache-2.0
"""One HTTP connection under uvicorn, with limits on time and size.

uvicorn identifies a client only by its address, waits for a request without a time limit, and accepts a request head
of any size. This module requires a request to be complete within `REQUEST_S` seconds, and an answer that the client
does not read is dropped after `TAKEN_S` seconds. Each user has a maximum number of connections (`admission`).
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .admission import Admission, Peer
from .api import problem_bytes

REQUEST_S = 10.0
TAKEN_S = 30.0
LAST_WORD_S = 1.0
HEAD_BYTES = 16 * 1024
READ_BYTES = 64 * 1024
"""Largest number of bytes that are parsed at once. The length of a request head is checked between two such
pieces, so a head can be longer than `HEAD_BYTES` by one piece.
"""
MOST_QUEUED = 1000
"""Most requests that may wait on one connection for the answer to the request before them."""


class Malformed(ValueError):
    """The parser accepts this request, but it may mean different things to different programs."""


class Connection(HttpToolsProtocol):
    """One connection. A refusal is sent as an error document, if the client still reads."""

    def __init__(self, admission: Admission, *of_uvicorn: Any, **more: Any) -> None:
        super().__init__(*of_uvicorn, **more)
        self.admission = admission
        self.peer: Peer | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._in_head, self._head_bytes, self._is_broken = True, 0, False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.peer = peer = self.admission.admitted(transport.get_extra_info("socket").fileno())
        self.app_state = {**self.app_state, "peer": peer}
        transport.set_write_buffer_limits(high=0)  # report even one unread byte
        self._limit(REQUEST_S, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        self._limit(None)
        self._limit(None, timer="taken")
        if self.peer is not None:
            self.admission.leave(self.peer)
            self.peer = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_broken or self.transport.is_closing():
            return
        idle = self._is_idle()
        for begin in range(0, len(data), READ_BYTES):
            if self._in_head and self._head_bytes > HEAD_BYTES:
                self.send_400_response("")
            if self._is_broken or self.transport.is_closing():
                return
            piece = data[begin : begin + READ_BYTES]
            self._head_bytes += len(piece)
            super().data_received(piece)
        if not (self._is_idle() or self.cycle.more_body):  # the whole request has arrived
            self._limit(None)
        elif idle and "request" not in self._timers:  # the first byte of the next request on this connection
            self._limit(REQUEST_S, self._too_slow)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0
        if len(self.pipeline) > MOST_QUEUED:
            raise Malformed("too many requests without waiting for an answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            raise Malformed("headers after the body")  # would be appended without limit
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (not hosts and self.parser.get_http_version() != "1.0"):
            raise Malformed("a request names one host")
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        self._limit(None)
        super().on_response_complete()
        if self._is_broken:
            self._refuse_broken()
        elif self.cycle.response_complete and self.cycle.more_body:
            self._limit(LAST_WORD_S, self.transport.close)  # the rest of the request's body is not needed

    def pause_writing(self) -> None:
        super().pause_writing()
        # the client does not read the answer; this timer also runs while the connection is being closed
        self._limit(TAKEN_S, self.transport.abort, timer="taken")

    def resume_writing(self) -> None:
        super().resume_writing()
        self._limit(None, timer="taken")

    def shutdown(self) -> None:
        """Close the connection after its present request is answered; wait briefly for a request that is still
        arriving.
        """
        if self.cycle is None and not self.transport.is_closing():
            self._limit(LAST_WORD_S, self.transport.close)
            self._unset_keepalive_if_required()
            return
        super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Refuse data that is not HTTP, or a request head that is too long, after the requests before it."""
        self._is_broken = True
        self._refuse_broken()

    def _refuse_broken(self) -> None:
        """Refuse broken data, unless complete requests before it still need their answers."""
        if not self.pipeline and (self._is_idle() or self.cycle.more_body):
            self._refuse(
                400, "not a request this server understands", f"HTTP/1.1, a head below {HEAD_BYTES // 1024} kB"
            )

    def _is_idle(self) -> bool:
        """Return whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _limit(self, seconds: float | None, then: Any = None, timer: str = "request") -> None:
        """Call `then` after so many seconds, in place of the last limit of this timer. None removes the limit."""
        if (running := self._timers.pop(timer, None)) is not None:
            running.cancel()
        if seconds is not None:
            self._timers[timer] = self.loop.call_later(seconds, then)

    def _too_slow(self) -> None:
        """Refuse a request that was not complete in time, and count the refusal."""
        self.admission.refused["slow"] += 1
        self._refuse(408, f"the request was not complete within {REQUEST_S:.0f} s", "send the whole request at once")

    def _refuse(self, status: int, what: str, hint: str) -> None:
        """Send an error document without calling the application, and close the connection."""
        if self.transport.is_closing():
            return
        if self._is_idle() or not self.cycle.response_started:
            self.transport.write(problem_bytes(status, what, hint))
        self.transport.close()
