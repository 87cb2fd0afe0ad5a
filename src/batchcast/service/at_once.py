"""A hint answered as its bytes come in, past everything that HTTP needs in general: a submission waits for it.

Only what `batchcast.lua` sends, whole and in one piece, on a unix socket, is answered here, word for word as `api`
does; anything else goes the usual way.
"""

from __future__ import annotations

import re
import time
from http import HTTPStatus
from typing import TYPE_CHECKING

from . import api
from .problem import PROBLEM

if TYPE_CHECKING:
    from .door import Peer
    from .web import Service

PLACE = "/v1/hint"
_WHOLE = re.compile(rb"GET (/v1/hint\?[!-~]{1,1900}) HTTP/1\.0\r\n(?:Host: localhost\r\n|Connection: close\r\n)*\r\n")


def target_of(received: bytes) -> str | None:
    """What a whole request for a hint asks for, after which nothing more comes; None where it goes the usual way.

    >>> target_of(b"GET /v1/hint?user=ada HTTP/1.0\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n")
    '/v1/hint?user=ada'
    >>> target_of(b"GET /v1/hint?user=ada HTTP/1.0\\r\\nCookie: x\\r\\n\\r\\n"), target_of(b"GET /v1/hint?user=ada HT")
    (None, None)
    """
    match = _WHOLE.fullmatch(received)
    return None if match is None else match[1].decode("ascii")


def answered(service: Service, peer: Peer, target: str) -> bytes | None:
    """The whole response; None where it goes the usual way: nothing at hand yet, a proxy, who asks too fast."""
    begun = time.perf_counter()
    if peer.is_proxy or peer.asker.name is None or (queue := service.standing.latest()) is None:
        return None
    if service.door.wait_for(peer.asker) > 0:
        return None
    status, body = api.hint_from_memory(service.settings, target, peer.asker, queue)
    took = time.perf_counter() - begun
    service.measures.request(PLACE, status, took)
    if not service.quiet or status >= 500:
        service.say(f"user={peer.asker.name} method=GET path={PLACE!r} status={status} ms={1000 * took:.1f}")
    return response(status, body)


def response(status: int, body: str) -> bytes:
    """A whole response with a JSON document, and the end of the connection.

    >>> response(200, "{}").splitlines()[0]
    b'HTTP/1.1 200 OK'
    """
    kind, document = "application/json" if status == 200 else PROBLEM, body.encode()
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {kind}\r\nContent-Length: {len(document)}\r\n"
        "Cache-Control: private, no-cache\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + document
