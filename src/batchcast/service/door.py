"""Who stands at the door, and how much each may ask at once: the service belongs to all users, not to the loudest.

On a unix socket the kernel says who asks (SO_PEERCRED, unix(7)). On loopback nobody knows. A proxy that the site names
(`proxy_from`: a unix user, or an address) may say for whom it asks (`proxy_header`); from anybody else that header
means nothing. Scripts may bring a token instead (`bearer`).
"""

from __future__ import annotations

import os
import pwd
import re
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from .access import Asker
from .settings import Settings

CONNECTIONS_EACH, CONNECTIONS_OF_A_PROXY = 64, 512
ROOM = 8000
"""Connections of all users together."""
RATE, BURST = 20.0, 120.0
MOST_BUCKETS = 10_000
NAMES_FOR_S = 60.0
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}")


class Peer(NamedTuple):
    """The other end of a connection: who it is, and whether it may speak for others."""

    viewer: Asker
    is_proxy: bool
    key: str


class Door:
    """Connections and requests counted by user. One event loop uses it; no locks."""

    def __init__(self, settings: Settings, now: Callable[[], float] = time.monotonic, room: int = ROOM) -> None:
        self.settings, self._now, self.room = settings, now, room
        self._open: Counter[str] = Counter()
        self._buckets: dict[str, tuple[float, float]] = {}
        self._inside: dict[int, Peer] = {}
        self.closing = False
        self.refused: Counter[str] = Counter()

    def peer(self, connection: socket.socket) -> Peer:
        """Who is at the other end."""
        trusted = self.settings["proxy_from"] if self.settings["proxy_header"] else ""
        if connection.family != socket.AF_UNIX:
            address = str(connection.getpeername()[0])
            return Peer(Asker(None), bool(trusted) and trusted == address, "proxy" if trusted == address else "")
        uid, name = peer_of(connection)
        if trusted and trusted == name:
            return Peer(Asker(None), True, "proxy")
        return Peer(Asker(name, sees_all=uid in (0, os.getuid())), False, name)

    def let_in(self, connection: socket.socket) -> bool:
        """Whether this connection may stay: counted then, and kept for whoever serves it (`admitted`)."""
        try:
            peer = self.peer(connection)
        except OSError:  # gone already
            return False
        if not self.enter(peer):
            return False
        if (never_served := self._inside.pop(connection.fileno(), None)) is not None:
            self.leave(never_served)
        self._inside[connection.fileno()] = peer
        return True

    def admitted(self, descriptor: int) -> Peer:
        """Who was let in on this descriptor; asked once."""
        return self._inside.pop(descriptor)

    def spoken_for(self, peer: Peer, header: str | None) -> Asker:
        """The viewer of one request: a trusted proxy's user, else whoever holds the connection."""
        if not peer.is_proxy or header is None or not _NAME.fullmatch(header):
            return peer.viewer
        return Asker(header)

    def enter(self, peer: Peer) -> bool:
        """Count a connection in; false, and not counted, where its user has enough of them, or there is no room."""
        if self.is_full:
            self.refused["full"] += 1
            return False
        most = CONNECTIONS_OF_A_PROXY if peer.is_proxy or not peer.key else CONNECTIONS_EACH
        if self._open[peer.key] >= most:
            self.refused["connections"] += 1
            return False
        self._open[peer.key] += 1
        return True

    def leave(self, peer: Peer) -> None:
        """Count a connection out."""
        self._open[peer.key] -= 1
        if self._open[peer.key] <= 0:
            del self._open[peer.key]

    def wait_for(self, viewer: Asker) -> float:
        """Seconds until this user may ask again; 0: now, and it is counted (a bucket of 120, 20 more each second).

        Nobody known, whoever may see everything and slurmctld are not limited here: the first only by connections.
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
            full_again = [name for name, (_, at) in self._buckets.items() if now - at > BURST / RATE]
            for name in full_again:
                del self._buckets[name]
        self._buckets[viewer.name] = (left - 1.0, now)
        return 0.0

    def give_back(self, viewer: Asker) -> None:
        """Take a question back that `wait_for` has counted."""
        if viewer.name in self._buckets:
            left, at = self._buckets[viewer.name]
            self._buckets[viewer.name] = (left + 1.0, at)

    @property
    def open(self) -> int:
        """Connections open now."""
        return self._open.total()

    @property
    def is_full(self) -> bool:
        """Whether there is no room for one more, whoever it is."""
        return self.open >= self.room


def peer_of(connection: socket.socket) -> tuple[int, str]:
    """The user id and name the kernel gives for the other end of a unix socket."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    uid = int(struct.unpack("3i", credentials)[1])
    try:
        return uid, _name_of(uid, int(time.monotonic() // NAMES_FOR_S))
    except KeyError:
        return uid, str(uid)


@lru_cache(4096)
def _name_of(uid: int, minute: int) -> str:
    """A user's name: asked once a minute, since it may be a directory server that knows it."""
    return pwd.getpwuid(uid).pw_name
