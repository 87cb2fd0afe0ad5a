# SPDX-License-Identifier: Apache-2.0
"""Runs the HTTP service with Starlette and uvicorn, on a unix socket or on loopback, for this machine only.

Over TCP the user is unknown (see `admission`); if jobs are private, unknown users get only figures over several users.
Connections above a user's limit are rejected in `accept()`, before a protocol object is created. asyncio accepts all
waiting connections first, so otherwise a user who opens a thousand connections per second would block all other users.
"""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import logging
import os
import resource
import socket
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from ...errors import BatchcastError, InputError, UsageError, how_to_install
from ..log import Log
from ..settings import Settings
from .admission import MOST_CONNECTIONS, Admission
from .api import problem_bytes

REFUSED_AT_ONCE = 64
_FULL = problem_bytes(429, "too many connections of one user", "close some, or use one for several questions")

_NO_ROOM = problem_bytes(503, "too many connections of all users together", "ask again in a few seconds")


class Listener(socket.socket):
    """A listening socket that accepts only admitted connections. The admission control remembers the clients of these
    connections by descriptor.
    """

    admission: Admission

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next admitted connection. Raises BlockingIOError if no connection waits, or after
        `REFUSED_AT_ONCE` refusals.
        """
        for _ in range(REFUSED_AT_ONCE):
            connection, address = super().accept()
            if self.admission.let_in(connection):
                return connection, address
            _refuse(connection, _NO_ROOM if self.admission.is_full else _FULL)
        raise BlockingIOError


def _refuse(connection: socket.socket, words: bytes) -> None:
    """Send a refusal on a new connection, and close the connection."""
    with connection, contextlib.suppress(OSError):
        connection.send(words, socket.MSG_DONTWAIT)
        connection.recv(65536, socket.MSG_DONTWAIT)  # on TCP, unread data would make the kernel discard the refusal


CONNECT_S = 10
LAST_ANSWERS_S = 10
BACKLOG = 1024
FILES_BESIDE = 200
"""Number of open files that are reserved for the store, its readers and Python."""
_ACCEPTED = "a path for a unix socket, 127.0.0.1:PORT, [::1]:PORT"


class Server:
    """An HTTP server that listens as soon as it is created. `serve` answers until `stop`; present requests are still
    answered.
    """

    def __init__(self, settings: Settings, listen: str, say: Callable[[str], None], quiet: bool = False) -> None:
        self.settings, self.quiet = settings, quiet
        self.log = Log(say, settings["log_format"], dated="JOURNAL_STREAM" not in os.environ)
        self.admission = Admission(settings, room=_room())
        given = _given()
        self.socket, self._owned = given or _listening(listen), given is None
        self.is_tcp = self.socket.family != socket.AF_UNIX
        self.address: Any = self.socket.getsockname()
        self.socket.admission = self.admission
        self._uvicorn = self._made()
        self._thread = threading.Thread(target=self.serve, daemon=True)

    def _made(self) -> Any:
        """Create the uvicorn server with `Connection`. uvicorn is imported here because the import is slow and only
        servers need it.
        """
        try:
            import uvicorn

            from .app import application
            from .connection import Connection
        except ImportError as error:
            raise InputError(f"serving needs {error.name}", hint=how_to_install("serve")) from None
        logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # a malformed form needs no log line
        config = uvicorn.Config(
            application(self.settings, self.admission, self.log, quiet=self.quiet, is_tcp=self.is_tcp),
            loop="asyncio",  # other event loops would not call `Listener.accept`
            http=functools.partial(Connection, self.admission),  # type: ignore[arg-type]
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=LAST_ANSWERS_S,
        )
        return uvicorn.Server(config)

    @property
    def shown(self) -> str:
        """Return the address of the server, to show it."""
        if not self.is_tcp:
            return str(self.address)
        host, port = str(self.address[0]), self.address[1]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def __enter__(self) -> Self:
        """Start answering in a thread; `__exit__` stops it."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._thread.join()

    @property
    def is_answering(self) -> bool:
        """Return whether the thread that the `with` block started still answers requests."""
        return self._thread.is_alive()

    def serve(self) -> None:
        """Answer requests until `stop` is called, then release the address."""
        try:
            self._uvicorn.run(sockets=[self.socket])
        finally:
            self.close()

    def stop(self) -> None:
        """Let `serve` end after the present requests are answered. Any thread can call this method."""
        self.admission.closing = True  # streams of page updates read this flag and end by themselves
        self._uvicorn.should_exit = True

    def close(self) -> None:
        """Close the socket and delete its file. A socket from systemd stays open in systemd for the next server."""
        self.socket.close()
        if self._owned and not self.is_tcp:
            Path(str(self.address)).unlink(missing_ok=True)


def _room() -> int:
    """Raise the limit on open files if needed, and return the maximum number of connections that it allows."""
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + FILES_BESIDE
    files = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    if soft != resource.RLIM_INFINITY and soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    return max(files - FILES_BESIDE, 1)


def _given() -> Listener | None:
    """Return the listening socket from systemd (sd_listen_fds(3)), which survives a restart of this process."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or os.environ.get("LISTEN_FDS") != "1":
        return None
    return Listener(fileno=3)


def _listening(listen: str) -> Listener:
    """Return a listening socket on the address in `--listen`."""
    family, address = _address(listen)
    if family == socket.AF_UNIX:
        _clear(Path(address))
    opened = Listener(family)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        if family == socket.AF_UNIX:
            os.chmod(address, 0o666)  # every user may connect; the answers depend on the user
        opened.listen(BACKLOG)
    except OSError as error:
        opened.close()
        hint = f"another address: --listen ({_ACCEPTED})"
        raise InputError(f"cannot listen on {listen}: {error.strerror}", hint=hint) from None
    return opened


def _address(listen: str) -> tuple[socket.AddressFamily, Any]:
    """Return the address family and address of `--listen`. Only addresses of this machine are accepted."""
    if "/" in listen:
        return socket.AF_UNIX, os.path.abspath(listen.removeprefix("unix:"))
    host, colon, port = listen.rpartition(":")
    host = host.strip("[]") if colon else listen
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
        number = int(port)
    except ValueError:
        raise UsageError(f"not an address to listen on: {listen!r} (accepted: {_ACCEPTED})") from None
    if not address.is_loopback or not 0 <= number < 65536:
        raise UsageError(f"{listen}: not an address of this machine (accepted: {_ACCEPTED})")
    return (socket.AF_INET6 if address.version == 6 else socket.AF_INET), (str(address), number)


def _clear(path: Path) -> None:
    """Delete the file of a socket on which no server answers. A file that is not a socket is never deleted."""
    try:
        there = path.lstat()
    except OSError:
        return
    if not stat.S_ISSOCK(there.st_mode):
        raise InputError(f"{path} already exists and is not a socket", hint="another path: --listen PATH")
    with socket.socket(socket.AF_UNIX) as other:
        other.settimeout(CONNECT_S)
        if other.connect_ex(str(path)) == 0:
            raise BatchcastError(f"another server answers on {path}", hint="systemctl status batchcast-serve")
    path.unlink(missing_ok=True)
