"""What is asked most, answered as its bytes come in, past everything that HTTP needs in general.

A submission waits for its hint, and portals ask when a job starts, job by job. Only a plain question, whole and in one
piece, on a unix socket, is answered here, word for word as the usual way does; anything else goes that way.
"""

from __future__ import annotations

import re
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from . import api
from .problem import PROBLEM

if TYPE_CHECKING:
    from .door import Peer
    from .web import Service

HINT, START = "/v1/hint", "/v1/start"
_WHOLE = re.compile(
    rb"GET (/v1/(?:hint|start)\?[!-~]{1,1900}) HTTP/1\.([01])\r\n"
    rb"((?:(?:Host: localhost|Connection: close|Connection: keep-alive|Accept: \*/\*|User-Agent: [ -~]{0,200})\r\n)*)"
    rb"\r\n"
)


class Question(NamedTuple):
    """What is asked, and whether another question may come on the same connection."""

    target: str
    stays: bool


def question_in(received: bytes) -> Question | None:
    r"""A whole plain question, after which nothing more has come; None where it goes the usual way.

    >>> tuple(question_in(b"GET /v1/hint?user=ada HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
    ('/v1/hint?user=ada', False)
    >>> question_in(b"GET /v1/start?job=4 HTTP/1.1\r\nHost: localhost\r\n\r\n").stays
    True
    >>> parts = (b"GET /v1/hint?user=ada HTTP/1.0\r\nCookie: x\r\n\r\n", b"GET /v1/hint?user=ada HT")
    >>> [question_in(received) for received in parts]
    [None, None]
    """
    match = _WHOLE.fullmatch(received)
    if match is None:
        return None
    return Question(match[1].decode("ascii"), match[2] == b"1" and b"close" not in match[3])


def fast_answer(service: Service, peer: Peer, target: str, stays: bool = False) -> bytes | None:
    """The whole response; None where it goes the usual way: nothing at hand yet, a proxy, who asks too fast."""
    begun = time.perf_counter()
    is_hint = target.startswith(HINT)
    if peer.is_proxy or peer.viewer.name is None or (queue := service.queue_cache.latest(is_hint)) is None:
        return None
    if service.admission.wait_for(peer.viewer) > 0:
        return None
    if is_hint:
        found: api.Reply | None = api.hint_from_memory(service.settings, target, peer.viewer, queue)
    else:
        found = api.from_memory(service.settings, target, peer.viewer, queue)
    if found is None:
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
