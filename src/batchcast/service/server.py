"""The HTTP API on a unix socket or on loopback: read-only, for this machine only.

On a unix socket the kernel says who asks (SO_PEERCRED, unix(7)); on TCP nobody knows, so where jobs are private such
a caller gets figures over several users and nothing else.
"""

from __future__ import annotations

import ipaddress
import os
import pwd
import socket
import socketserver
import stat
import struct
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from ..errors import BatchcastError, InputError, UsageError
from .api import Reply, reply
from .ask import Asker
from .document import dumps
from .settings import Settings

AT_ONCE = 16
PATIENCE_S = 10
_ACCEPTED = "a path for a unix socket, 127.0.0.1:PORT, [::1]:PORT"


class _Handler(BaseHTTPRequestHandler):
    """One connection, one GET, one document."""

    server_version, sys_version, protocol_version, timeout = "batchcast", "", "HTTP/1.0", PATIENCE_S
    server: Any

    def do_GET(self) -> None:
        self._send(self._answer())

    def do_HEAD(self) -> None:
        self._send(self._answer(), body=False)

    def _answer(self) -> Reply:
        if self.server.is_tcp and not _is_here(self.headers.get("Host", "localhost")):
            return _wrong(403, "this is asked by the name of another machine", "http://localhost, from this machine")
        try:
            return reply(self.server.settings, self.path, self.server.asker(self.connection))
        except Exception as error:  # a defect must not cost the server
            self.server.say(f"unexpected {type(error).__name__}: {error}")
            return _wrong(500, f"unexpected {type(error).__name__}", "the server's own log")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the library refuses by itself (another method, a broken request) as a document too."""
        self._send(_wrong(code, message or "refused", "GET"), body=self.command != "HEAD")

    def _send(self, answer: Reply, body: bool = True) -> None:
        data = answer.body.encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if body:
            self.wfile.write(data)

    def address_string(self) -> str:
        """Who asks, for the log."""
        return self.server.asker(self.connection).name or "somebody"

    def log_message(self, format: str, *args: Any) -> None:
        self.server.say(f"{self.address_string()}: {format % args}")


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Bound and listening once made; `serve_forever` until `shutdown`. At most 16 requests at once, the others wait."""

    allow_reuse_address, daemon_threads, request_queue_size = True, True, 64

    def __init__(self, settings: Settings, listen: str, say: Callable[[str], None]) -> None:
        self.settings, self.say = settings, say
        self.address_family, address = _address(listen)
        self.is_tcp = self.address_family != socket.AF_UNIX
        self._room = threading.BoundedSemaphore(AT_ONCE)
        if not self.is_tcp:
            _clear(Path(address))
        try:
            super().__init__(address, _Handler)
        except OSError as error:
            raise InputError(
                f"cannot listen on {listen}: {error.strerror}", hint=f"another place: --listen ({_ACCEPTED})"
            ) from None
        if not self.is_tcp:
            os.chmod(address, 0o666)  # everybody may ask: who it is decides what is answered

    @property
    def shown(self) -> str:
        """Where it is reached."""
        if not self.is_tcp:
            return str(self.server_address)
        host, port = str(self.server_address[0]), self.server_address[1]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def asker(self, connection: socket.socket) -> Asker:
        """Who is at the other end of a connection."""
        if self.is_tcp:
            return Asker(None)
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        _, uid, _ = struct.unpack("3i", credentials)
        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:
            name = str(uid)
        return Asker(name, sees_all=uid in (0, os.getuid()))

    def process_request(self, request: Any, client_address: Any) -> None:
        self._room.acquire()
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Somebody hung up, or sent nothing: no traceback for that."""

    def server_close(self) -> None:
        super().server_close()
        if not self.is_tcp:
            Path(str(self.server_address)).unlink(missing_ok=True)


def _address(listen: str) -> tuple[socket.AddressFamily, Any]:
    """The family and address of `--listen`; only this machine's own are accepted."""
    if "/" in listen:
        return socket.AF_UNIX, os.path.abspath(listen.removeprefix("unix:"))
    host, colon, port = listen.rpartition(":")
    host = host.strip("[]") if colon else listen
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
        number = int(port)
    except ValueError:
        raise UsageError(f"not a place to listen: {listen!r} (accepted: {_ACCEPTED})") from None
    if not address.is_loopback or not 0 <= number < 65536:
        raise UsageError(f"{listen}: only this machine may ask (accepted: {_ACCEPTED})")
    return (socket.AF_INET6 if address.version == 6 else socket.AF_INET), (str(address), number)


def _clear(path: Path) -> None:
    """Take away a socket that nobody answers on any more; nothing else."""
    try:
        there = path.lstat()
    except OSError:
        return
    if not stat.S_ISSOCK(there.st_mode):
        raise InputError(f"{path} is there already and no socket", hint="another place: --listen PATH")
    with socket.socket(socket.AF_UNIX) as other:
        other.settimeout(PATIENCE_S)
        if other.connect_ex(str(path)) == 0:
            raise BatchcastError(f"another server answers on {path}", hint="systemctl status batchcast-serve")
    path.unlink(missing_ok=True)


def _is_here(host: str) -> bool:
    """Whether a Host header names this machine: a web page elsewhere cannot make a browser ask here."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    try:
        return name == "localhost" or ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


def _wrong(status: int, what: str, hint: str) -> Reply:
    return Reply(status, dumps({"schema": "batchcast/error/1", "error": what, "try": hint, "exit_code": 1}))
