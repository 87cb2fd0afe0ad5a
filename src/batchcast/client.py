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
import os
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

SOCKET = "/run/batchcast/api.sock"
PATIENCE_S = 0.18  # so that 200 ms are kept with what is around it
REST_S = 30.0  # how long a service that failed is left alone
LOG = logging.getLogger("batchcast")


class Start(NamedTuple):
    """When a job of so many tasks would start: seconds since 1970, by half and by nine in ten of the chances."""

    procs: int
    likely_s: float
    by_90_s: float


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

    Examples
    --------
    >>> nobody = Client("/nowhere.sock")
    >>> nobody.limit_s(7200.0, "align"), nobody.memory_mib(16000.0, "align"), nobody.starts([1, 8])
    (7200.0, 16000.0, [])
    """

    def __init__(self, address: str = "", token: str = "", patience_s: float = PATIENCE_S) -> None:
        self.address = address or os.environ.get("BATCHCAST_SERVICE", "") or SOCKET
        self.token = token or os.environ.get("BATCHCAST_TOKEN", "")
        self.patience_s = patience_s
        self.not_before = 0.0

    def limit_s(self, written_s: float, name: str, *, attempt: int = 1, procs: int = 1, partition: str = "") -> float:
        """The limit to ask for, seconds: what jobs of this name were advised, never above the one written.

        From the second `attempt` on the written one: the advised one may have been what cut the first off.
        """
        if attempt > 1:
            return written_s
        asked = {"name": name, "ntasks": procs, "partition": partition, "time": max(int(written_s / 60), 1)}
        advised = _number(self.ask("hint", asked), "limit_s")
        return written_s if advised is None else min(advised, written_s)

    def memory_mib(
        self, written_mib: float, name: str, *, attempt: int = 1, held_mib: float | None = None, procs: int = 1,
        partition: str = "",
    ) -> float:  # fmt: skip
        """The memory of a node to ask for, MiB: what jobs of this name were advised, never above the one written.

        From the second `attempt` on half more than the first one held (`held_mib`), if that is known, else the written.
        """
        if attempt > 1:
            return written_mib if held_mib is None else min(1.5 ** (attempt - 1) * held_mib, written_mib)
        advised = _number(self.ask("hint", {"name": name, "ntasks": procs, "partition": partition}), "memory_kib")
        return written_mib if advised is None else min(advised / 1024.0, written_mib)

    def starts(self, procs: Sequence[int], *, partition: str = "", limit_s: float = 0.0) -> list[Start]:
        """When a job would start with each of these numbers of tasks; choices that nobody knows are left out."""
        found = []
        for count in procs:
            asked: dict[str, object] = {"ntasks": count, "partition": partition}
            answer = self.ask("hint", {**asked, **({"time": max(int(limit_s / 60), 1)} if limit_s > 0 else {})})
            likely, by_90 = _number(answer, "likely_start_s"), _number(answer, "by_90_start_s")
            if likely is not None and by_90 is not None:
                found.append(Start(count, likely, by_90))
        return found

    def ask(self, question: str, parameters: Mapping[str, object]) -> dict[str, Any] | None:
        """The first result of /v1/QUESTION, None where the service has no answer or none came in time."""
        begun = time.monotonic()
        if begun < self.not_before:
            return None
        given = {name: str(value) for name, value in parameters.items() if value not in ("", None)}
        try:
            status, body = self._get(f"/v1/{question}?{urlencode(given)}", begun + self.patience_s)
            document = json.loads(body)
            results = document.get("results") if status == 200 else None
            return dict(results[0]) if results else None
        except Exception as error:  # whatever it is, the caller's request stays as it was
            self.not_before = time.monotonic() + REST_S
            LOG.warning("batchcast does not answer (%s: %s); requests stay as written", self.address, error)
            return None

    def _get(self, target: str, until: float) -> tuple[int, bytes]:
        """One GET over a connection of its own, all of it before `until`."""
        place = urlsplit(self.address)
        if place.scheme in ("http", ""):
            connection = self._opened(place.hostname or "", place.port or 80, until)
        else:
            raise ValueError(f"{place.scheme} is not known (accepted: a socket's path, http://HOST:PORT)")
        with connection:
            token = f"Authorization: Bearer {self.token}\r\n" if self.token else ""
            head = f"GET {target} HTTP/1.0\r\nHost: {place.netloc or 'localhost'}\r\n{token}Connection: close\r\n\r\n"
            connection.sendall(head.encode())
            received = b""
            while part := _within(connection, until).recv(65536):
                received += part
        head_of, _, body = received.partition(b"\r\n\r\n")
        return int(head_of.split(None, 2)[1]), body

    def _opened(self, host: str, port: int, until: float) -> socket.socket:
        if host:
            return _within(socket.create_connection((host, port), max(until - time.monotonic(), 0.001)), until)
        connection = socket.socket(socket.AF_UNIX)
        try:
            _within(connection, until).connect(self.address.removeprefix("unix:"))
        except BaseException:
            connection.close()
            raise
        return connection


def _within(connection: socket.socket, until: float) -> socket.socket:
    """The connection with what is left of the time; TimeoutError where nothing is."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("no answer in time")
    connection.settimeout(left)
    return connection


def _number(answer: Mapping[str, Any] | None, name: str) -> float | None:
    value = None if answer is None else answer.get(name)
    return float(value) if isinstance(value, (int, float)) and value == value else None


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
    given, client = parser.parse_args(words), Client()
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
