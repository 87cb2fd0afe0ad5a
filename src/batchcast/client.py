# SPDX-License-Identifier: Apache-2.0
"""Ask a batchcast service from a program that submits jobs: one file, the standard library alone, it can be copied.

It *fails open*: where no answer comes within 200 ms the request stays as it was written, one line says so in the log
`batchcast`, and the service is left alone for 30 s. It never raises into its caller.

    from batchcast.client import Client
    client = Client()                                   # $BATCHCAST_SERVICE, else the socket of this computer
    minutes = client.limit_s(7200, "align", procs=8) / 60
    mebibytes = client.memory_mib(16000, "align")

From another language it is a command that prints the number: `python3 client.py limit 7200 align --procs 8`.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

SOCKET = "/run/batchcast/api.sock"
PATIENCE_S = 0.18  # so that 200 ms are kept with what is around it
REST_S = 30.0  # how long a service that failed is left alone
MOST_BYTES = 1 << 20  # no answer is longer
LOG = logging.getLogger("batchcast")


class Start(NamedTuple):
    """When a job would start: seconds since 1970, by half and by nine in ten of the chances."""

    likely_s: float
    by_90_s: float

    def words(self, now: float | None = None) -> str:
        """As people read it, in local time: the hour, and the day where it is not today's.

        >>> Start(1000.0, 1030.0).words(1000.0)
        'starts at once'
        """
        now = time.time() if now is None else now
        if self.by_90_s <= now + 60:
            return "starts at once"
        likely = "at once" if self.likely_s <= now + 60 else _clock(self.likely_s, now)
        return f"likely {likely}, 9 in 10 by {_clock(self.by_90_s, now)}"


class Client:
    """Questions to one service, each answered within `patience_s` or not at all.

    Parameters
    ----------
    address
        A path of a unix socket, or http://HOST:PORT; by default $BATCHCAST_SERVICE, else /run/batchcast/api.sock.
    token
        A bearer token (`batchcast site token create`), by default $BATCHCAST_TOKEN; on the socket none is needed.
    patience_s
        Longest wait for one answer, seconds.
    user_header
        The header by which a portal that the site trusts (`proxy_from`) names its user: the site's `proxy_header`.

    Examples
    --------
    >>> nobody = Client("/nowhere.sock")
    >>> nobody.limit_s(7200.0, "align"), nobody.memory_mib(16000.0, "align"), nobody.starts([1, 8])
    (7200.0, 16000.0, [None, None])
    """

    def __init__(
        self, address: str = "", token: str = "", patience_s: float = PATIENCE_S, user_header: str = ""
    ) -> None:
        self.address = address or os.environ.get("BATCHCAST_SERVICE", "") or SOCKET
        self.token = token or os.environ.get("BATCHCAST_TOKEN", "")
        self.patience_s, self.user_header = patience_s, user_header
        self.not_before = 0.0

    def limit_s(self, written_s: float, name: str, *, attempt: int = 1, procs: int = 1, partition: str = "") -> float:
        """The limit to ask for, seconds: what jobs of this name were advised, never above the one written.

        From the second `attempt` on the written one: the advised one may have been what cut the first off.
        """
        with self._failing_open():
            if attempt > 1:
                return written_s
            asked = {"name": name, "ntasks": procs, "partition": partition, "time": max(int(written_s / 60), 1)}
            advised = _number(self.ask("hint", asked), "limit_s")
            return written_s if advised is None else min(advised, written_s)
        return written_s

    def memory_mib(
        self, written_mib: float, name: str, *, attempt: int = 1, held_mib: float | None = None, procs: int = 1,
        partition: str = "",
    ) -> float:  # fmt: skip
        """The memory of a node to ask for, MiB: what jobs of this name were advised, never above the one written.

        Of a name that is new: what the user's other names held of theirs. From the second `attempt` on half more than
        the first one held (`held_mib`), if that is known, else the written.
        """
        with self._failing_open():
            if attempt > 1:
                return written_mib if held_mib is None else min(1.5 ** (attempt - 1) * held_mib, written_mib)
            asked = {"name": name, "ntasks": procs, "partition": partition, "mem": f"{max(int(written_mib), 1)}M"}
            advised = _number(self.ask("hint", asked), "memory_kib")
            return written_mib if advised is None else min(advised / 1024.0, written_mib)
        return written_mib

    def starts(self, choices: Sequence[int | Mapping[str, object]], user: str = "") -> list[Start | None]:
        """When a job sent now would start with each choice: a number of tasks, or sbatch's long options.

        In the order of the choices, up to 20 of them; None where nobody knows. For another `user` where who asks may:
        root on the socket, a proxy that the site has named (`user_header`), anybody where jobs are not private.
        """
        found: list[Start | None] = []
        with self._failing_open():
            found = [None] * len(choices)
            asked = [{"ntasks": choice} if isinstance(choice, int) else choice for choice in choices]
            rows = self._rows("choices", {"choice": [urlencode(choice) for choice in asked]}, user) or []
            for place, row in enumerate(rows[: len(asked)]):
                likely, by_90 = _number(row, "likely_start_s"), _number(row, "by_90_start_s")
                if likely is not None and by_90 is not None:
                    found[place] = Start(likely, by_90)
        return found

    @contextmanager
    def _failing_open(self) -> Iterator[None]:
        """Nothing is raised into a program that submits: what it was called with wrongly is a line in the log."""
        try:
            yield
        except Exception as error:
            _tell("batchcast was asked wrongly (%s: %s); requests stay as written", type(error).__name__, error)

    def ask(self, question: str, parameters: Mapping[str, object]) -> dict[str, Any] | None:
        """The first result of /v1/QUESTION, None where the service has no answer or none came in time."""
        rows = self._rows(question, parameters)
        return rows[0] if rows else None

    def _rows(self, question: str, parameters: Mapping[str, object], user: str = "") -> list[dict[str, Any]] | None:
        begun = time.monotonic()
        if begun < self.not_before:
            return None
        try:
            if not user.isprintable():
                raise ValueError("a user's name has no line ends")
            header = f"{self.user_header}: {user}\r\n" if self.user_header and user else ""
            given = {**parameters, "user": "" if header else user}
            given = {name: value for name, value in given.items() if value not in ("", None)}
            target = f"/v1/{question}?{urlencode(given, doseq=True)}"
            status, body = self._get(target, header, begun + self.patience_s)
            if status == 401:
                raise ValueError("the token is not known there, or there is none")
            document = json.loads(body)
            return [dict(row) for row in document["results"]] if status == 200 else None
        except Exception as error:  # whatever it is, the caller's request stays as it was
            self.not_before = time.monotonic() + REST_S
            _tell("batchcast does not answer (%s: %s); requests stay as written", self.address, error)
            return None

    def _get(self, target: str, header: str, until: float) -> tuple[int, bytes]:
        """One GET over a connection of its own, all of it before `until`."""
        place = urlsplit(self.address)
        if place.scheme in ("http", ""):
            connection = self._opened(place.hostname or "", place.port or 80, until)
        else:
            raise ValueError(f"{place.scheme} is not known (accepted: a socket's path, http://HOST:PORT)")
        with connection:
            token = f"Authorization: Bearer {self.token}\r\n" if self.token else ""
            host = f"Host: {place.netloc or 'localhost'}\r\n"
            head = f"GET {target} HTTP/1.0\r\n{host}{token}{header}Connection: close\r\n\r\n"
            connection.sendall(head.encode())
            received = b""
            while part := _within(connection, until).recv(65536):
                received += part
                if len(received) > MOST_BYTES:
                    raise ValueError("an answer without end")
        head_of, _, body = received.partition(b"\r\n\r\n")
        return int(head_of.split(None, 2)[1]), body

    def _opened(self, host: str, port: int, until: float) -> socket.socket:
        if not host:
            return _connected(socket.AF_UNIX, self.address.removeprefix("unix:"), until)
        places = _resolved(host, port, until)
        for more in range(len(places) - 1, 0, -1):  # each may take its share of the time that is left
            family, *_, place = places[-more - 1]
            try:
                now = time.monotonic()
                return _connected(family, place, now + (until - now) / (more + 1))
            except OSError:
                continue
        return _connected(places[-1][0], places[-1][4], until)


def _resolved(host: str, port: int, until: float) -> list[Any]:
    """Where a name leads. A resolver takes its own time, seconds where it is away: a thread waits for it."""
    found: list[Any] = []

    def resolve() -> None:
        try:
            found.append(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=resolve, daemon=True)
    thread.start()
    thread.join(max(until - time.monotonic(), 0.0))
    if not found:
        raise TimeoutError(f"{host} is not resolved in time")
    if isinstance(found[0], Exception):
        raise found[0]
    return list(found[0])


def _connected(family: int, place: Any, until: float) -> socket.socket:
    connection = socket.socket(family)
    try:
        _within(connection, until).connect(place)
    except BaseException:
        connection.close()
        raise
    return connection


def _tell(words: str, *more: object) -> None:
    """A line in the log, as far as that can be written."""
    with suppress(Exception):
        LOG.warning(words, *more)


def _clock(at: float, now: float) -> str:
    """The minute that `at` falls into or begins: never one that is over then."""
    local, today = time.localtime(math.ceil(at / 60) * 60), time.localtime(now)
    return time.strftime("%H:%M" if local[:3] == today[:3] else "%a %d %b %H:%M", local)


def _within(connection: socket.socket, until: float) -> socket.socket:
    """The connection with what is left of the time; TimeoutError where nothing is."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("no answer in time")
    connection.settimeout(left)
    return connection


def _number(answer: Mapping[str, Any] | None, name: str) -> float | None:
    """What an answer says, where that is an amount: no other number may become a request."""
    value = None if answer is None else answer.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 < value < 1e300 else None


def main(words: Sequence[str] | None = None) -> None:
    """`limit SECONDS NAME` and `memory MIB NAME` print the number to ask for; whatever happens they print one."""
    parser = argparse.ArgumentParser(
        description="What a task should ask for, by its history; as written without an answer."
    )
    parser.add_argument("what", choices=("limit", "memory"))
    parser.add_argument("written", type=float, help="the limit as written, seconds, or the memory of a node, MiB")
    parser.add_argument("name", help="the name of the task's jobs")
    parser.add_argument("--attempt", type=int, default=1, help="from the second on nothing is shortened")
    parser.add_argument("--procs", type=int, default=1)
    parser.add_argument("--partition", default="")
    parser.add_argument("--held", type=float, help="MiB that the attempt before held when it ran out")
    words = sys.argv[1:] if words is None else words
    try:
        given, client = parser.parse_args(words), Client()
    except SystemExit as stop:
        if stop.code and len(words) > 1 and words[1].replace(".", "", 1).isdigit():
            print(words[1])  # as written; what was wrong stands on stderr and in the exit code
        raise
    if given.what == "limit":
        number = client.limit_s(
            given.written, given.name, attempt=given.attempt, procs=given.procs, partition=given.partition
        )
    else:
        number = client.memory_mib(
            given.written, given.name, attempt=given.attempt, held_mib=given.held, procs=given.procs,
            partition=given.partition,
        )  # fmt: skip
    print(f"{number:.0f}")


if __name__ == "__main__":
    main()
