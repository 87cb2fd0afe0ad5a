# SPDX-License-Identifier: Apache-2.0
"""Admission control: identifies the user of a request, and limits connections and requests per user.

On a unix socket the kernel reports the user (SO_PEERCRED, unix(7)); on loopback the user is unknown. A proxy that the
site names (`proxy_from`: a unix user, or an address) may name the user (`proxy_header`); from any other client the
header is ignored. Scripts may send a bearer token instead (RFC 6750). A store has few tokens. The server keeps the
tokens in memory, and a thread reads them again after `HELD_S` seconds. So checking a token costs one digest per
request, and a revoked token works for at most `HELD_S` seconds more.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from ...errors import BatchcastError, Unreachable
from ...store.reader import Reader
from ...store.tokens import user_of
from ..answers.disclosure import Viewer
from ..settings import Settings

CONNECTIONS_EACH, CONNECTIONS_OF_A_PROXY = 64, 512
MOST_CONNECTIONS = 8000
"""Largest number of connections of all users together."""
RATE, BURST = 20.0, 120.0
MOST_BUCKETS = 10_000
NAMES_FOR_S = 60.0
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}")


class Peer(NamedTuple):
    """The client of a connection: its user, and whether it is the proxy that may name other users."""

    viewer: Viewer
    is_proxy: bool
    key: str


class Admission:
    """Counts connections and requests by user. Only one event loop may use it, so it has no locks."""

    def __init__(
        self, settings: Settings, now: Callable[[], float] = time.monotonic, room: int = MOST_CONNECTIONS
    ) -> None:
        self.settings, self._now, self.room = settings, now, room
        self._open: Counter[str] = Counter()
        self._buckets: dict[str, tuple[float, float]] = {}
        self._inside: dict[int, Peer] = {}
        self.closing = False
        self.refused: Counter[str] = Counter()

    def peer(self, connection: socket.socket) -> Peer:
        """Return the client of a connection."""
        trusted = self.settings["proxy_from"] if self.settings["proxy_header"] else ""
        if connection.family != socket.AF_UNIX:
            address = str(connection.getpeername()[0])
            return Peer(Viewer(None), bool(trusted) and trusted == address, "proxy" if trusted == address else "")
        uid, name = peer_of(connection)
        if trusted and trusted == name:
            return Peer(Viewer(None), True, "proxy")
        return Peer(Viewer(name, sees_all=uid in (0, os.getuid())), False, name)

    def let_in(self, connection: socket.socket) -> bool:
        """Return whether this connection is admitted. If so, count it, and remember its client until the server calls
        `admitted`.
        """
        try:
            peer = self.peer(connection)
        except OSError:  # the client has already disconnected
            return False
        if not self.enter(peer):
            return False
        if (never_served := self._inside.pop(connection.fileno(), None)) is not None:
            self.leave(never_served)
        self._inside[connection.fileno()] = peer
        return True

    def admitted(self, descriptor: int) -> Peer:
        """Return the client that was admitted on this descriptor. The method can be called once per connection."""
        return self._inside.pop(descriptor)

    def spoken_for(self, peer: Peer, header: str | None) -> Viewer:
        """Return the viewer of one request: the user that a trusted proxy names, else the connection's user."""
        return Viewer(header) if peer.is_proxy and header and _NAME.fullmatch(header) else peer.viewer

    def enter(self, peer: Peer) -> bool:
        """Count a new connection and return True; return False if its user, or all users together, have too many."""
        most = CONNECTIONS_OF_A_PROXY if peer.is_proxy or not peer.key else CONNECTIONS_EACH
        if self.is_full or self._open[peer.key] >= most:
            self.refused["full" if self.is_full else "connections"] += 1
            return False
        self._open[peer.key] += 1
        return True

    def leave(self, peer: Peer) -> None:
        """Remove a connection from the counts."""
        self._open[peer.key] -= 1
        if self._open[peer.key] <= 0:
            del self._open[peer.key]

    def wait_for(self, viewer: Viewer) -> float:
        """Return the seconds until this user may send a request; if 0, count this request.

        Each user has a token bucket of `BURST` (120) requests, refilled by `RATE` (20) per second. Unknown users are
        limited only by their connections; operators and slurmctld are not limited.
        """
        if viewer.name is None or viewer.sees_all or viewer.name == self.settings["submit_from"]:
            return 0.0
        now = self._now()
        left, at = self._buckets.get(viewer.name, (BURST, now))
        left = min(BURST, left + (now - at) * RATE)
        if left < 1.0:
            self.refused["rate"] += 1
            return (1.0 - left) / RATE
        if len(self._buckets) >= MOST_BUCKETS:
            # the buckets of other users are full again
            self._buckets = {name: of for name, of in self._buckets.items() if now - of[1] <= BURST / RATE}
        self._buckets[viewer.name] = (left - 1.0, now)
        return 0.0

    def give_back(self, viewer: Viewer) -> None:
        """Undo the counting of a request by `wait_for`."""
        if viewer.name in self._buckets:
            left, at = self._buckets[viewer.name]
            self._buckets[viewer.name] = (left + 1.0, at)

    @property
    def open(self) -> int:
        """Number of open connections."""
        return self._open.total()

    @property
    def is_full(self) -> bool:
        """Return whether the server has no room for further connections."""
        return self.open >= self.room


def peer_of(connection: socket.socket) -> tuple[int, str]:
    """Return the user id and name of the client on a unix socket, as the kernel reports them."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    uid = int(struct.unpack("3i", credentials)[1])
    try:
        return uid, _name_of(uid, int(time.monotonic() // NAMES_FOR_S))
    except KeyError:
        return uid, str(uid)


@lru_cache(4096)
def _name_of(uid: int, minute: int) -> str:
    """Return a user's name. A name is looked up once a minute, because the lookup may query a directory server."""
    return pwd.getpwuid(uid).pw_name


HELD_S = 2.0
SCHEME = "bearer"


class InvalidToken(BatchcastError):
    """The request has an invalid or revoked token. The request is refused, and never answered like a request without a
    token.
    """

    status = 401


def token_in(header: str | None) -> str | None:
    """Return the bearer token in an Authorization header; None if the header has no bearer token.

    >>> token_in("Bearer abc"), token_in("Bearer"), token_in("Basic abc"), token_in(None)
    ('abc', '', None, None)
    """
    scheme, _, token = (header or "").partition(" ")
    return token.strip() if scheme.lower() == SCHEME else None


class Tokens:
    """The valid tokens of one store, read at most `HELD_S` seconds ago. Only one event loop may use this object."""

    def __init__(self, store: Callable[[], str], now: Callable[[], float] = time.monotonic) -> None:
        self._store, self._now = store, now
        self._known: Mapping[str, Mapping[str, Any]] = {}
        self._read_at = -1e300
        self._reading = asyncio.Lock()

    async def viewer(self, token: str) -> Viewer:
        """Return the user of a token, who is never an operator. Raises InvalidToken, or Unreachable if the store cannot
        be read.
        """
        import anyio.to_thread  # only servers have this package installed

        async with self._reading:
            if self._now() - self._read_at >= HELD_S:
                self._known = await anyio.to_thread.run_sync(self._read)
                self._read_at = self._now()
        user = user_of(self._known, token, time.time())
        if user is None:
            hint = "an operator can create one: batchcast site token create"
            raise InvalidToken("this token is not valid or has expired", hint=hint)
        return Viewer(user)

    def _read(self) -> dict[str, Mapping[str, Any]]:
        """Return the rows of the table `tokens`, by token id."""
        try:
            with Reader(self._store()) as reader:
                return {row["id"]: row for row in reader.ask("tokens")}
        except BatchcastError as error:
            raise Unreachable(f"tokens cannot be looked up: {error.message}", hint=error.hint) from None
