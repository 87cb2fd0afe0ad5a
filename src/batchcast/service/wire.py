"""One HTTP connection under uvicorn, with limits that no client can wear down: one total time, one size, one place.

uvicorn knows who connected only by address and waits for a request as long as it takes. Here a request, head and body,
must be there within `REQUEST_S` in all, however its bytes are dripped in; an answer that nobody takes is given up after
`TAKEN_S`; and each user has so many connections (`admission`).
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from .at_once import fast_answer, question_in
from .door import Door, Peer
from .problem import problem_bytes

REQUEST_S = 10.0
TAKEN_S = 30.0
LAST_WORD_S = 1.0
REST_S = 5.0
"""How long a connection stays after an answer, as uvicorn's own do."""
HEAD_BYTES = 16 * 1024


class Wire(H11Protocol):
    """One connection. Refused with a document, never with silence, as long as anybody listens."""

    def __init__(
        self,
        admission: Door,
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
        question = question_in(data)
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
