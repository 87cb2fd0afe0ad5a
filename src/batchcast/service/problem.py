"""Errors as documents: RFC 9457's members, and those of every document of batchcast."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from ..document import dumps

PROBLEM = "application/problem+json"
_TITLES = {499: "Client Closed Request"}
"""What is no status of the standard: nobody reads it but the log and the figures, where it must not be a defect."""


def problem(status: int, what: str, hint: str, exit_code: int = 1) -> str:
    """The document of an error: what is wrong, and the next thing to try.

    >>> import json
    >>> json.loads(problem(404, "no /x", "accepted: /v1/start"))["title"]
    'Not Found'
    >>> json.loads(problem(499, "nobody waits for this answer any more", ""))["title"]
    'Client Closed Request'
    """
    members: dict[str, Any] = {
        "type": "about:blank",
        "title": _TITLES.get(status) or HTTPStatus(status).phrase,
        "status": status,
        "detail": what,
        "schema": "batchcast/error/1",
        "error": what,
        "try": hint,
        "exit_code": exit_code,
    }
    return dumps(members)


def problem_bytes(status: int, what: str, hint: str) -> bytes:
    """A whole response, for where there is no request to answer."""
    body = problem(status, what, hint).encode()
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {PROBLEM}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
