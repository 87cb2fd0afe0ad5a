"""The listening socket: who has enough connections is refused here, before anything is made for one more.

asyncio accepts all that knock before it turns to anything else. Were each one given a protocol of its own first, a user
who knocks a thousand times a second would keep all the others waiting.
"""

from __future__ import annotations

import socket
from typing import Any

from .door import Door
from .problem import problem_bytes

REFUSED_AT_ONCE = 64
_FULL = problem_bytes(429, "too many connections of one user", "close some, or use one for several questions")

_NO_ROOM = problem_bytes(503, "too many connections of all users together", "ask again in some seconds")


class Listener(socket.socket):
    """A listening socket with a admission; those who are let in are known to it by their descriptor."""

    admission: Door

    def accept(self) -> tuple[socket.socket, Any]:
        """The next who may come in. BlockingIOError where nobody waits, and after some refusals: others' turn."""
        for _ in range(REFUSED_AT_ONCE):
            connection, address = super().accept()
            if self.admission.let_in(connection):
                return connection, address
            _refuse(connection, _NO_ROOM if self.admission.is_full else _FULL)
        raise BlockingIOError


def _refuse(connection: socket.socket, words: bytes) -> None:
    try:
        connection.send(words, socket.MSG_DONTWAIT)
        connection.recv(65536, socket.MSG_DONTWAIT)  # what is left unread would take the refusal back, on TCP
    except OSError:
        pass
    finally:
        connection.close()
