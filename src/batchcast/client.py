# SPDX-License-Identifier: Apache-2.0
"""Client of a batchcast service, for programs that submit jobs. This file needs only the standard library and can be
copied into other projects.

The client *fails open*: if the service does not answer within 200 ms, the job's request stays unchanged, one line is
written to the logger `batchcast`, and no further query is sent for 30 s. The client never raises an exception into its
caller.

    from batchcast.client import Client
    client = Client()                                   # $BATCHCAST_SERVICE, else the socket of this computer
    minutes = client.limit_s(7200, "align", procs=8) / 60
    mebibytes = client.memory_mib(16000, "align")

In other languages, run this file as a command that prints the number: `python3 client.py limit 7200 align --procs 8`.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from ipaddress import ip_address
from pathlib import PurePath
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlencode, urlsplit

SOCKET = "/run/batchcast/api.sock"
PATIENCE_S = 0.18  # the code around the query has 20 ms, so that a call takes at most 200 ms
REST_S = 30.0  # after a failure, no query is sent for this many seconds
MOST_BYTES = 1 << 20  # longer answers are rejected
LOG = logging.getLogger("batchcast")


class UnsafeAddressError(ValueError):
    """Another user could answer at this address in place of the service, and would get the token."""


class Start(NamedTuple):
    """A predicted start, in epoch seconds: the median, and the time by which 90 % of such jobs start."""

    likely_s: float
    by_90_s: float

    def words(self, now: float | None = None) -> str:
        """Format the start time for people, in local time, with the date if the job does not start today.

        Examples
        --------
        >>> Start(1000.0, 1030.0).words(1000.0)
        'starts at once'
        """
        now = time.time() if now is None else now
        if self.by_90_s <= now + 60:
            return "starts at once"
        likely = "at once" if self.likely_s <= now + 60 else _clock(self.likely_s, now)
        return f"likely {likely}, 9 in 10 by {_clock(self.by_90_s, now)}"


class Client:
    """A client of one batchcast service. Each call returns within `patience_s`, even if the service does not answer.

    Parameters
    ----------
    address
        Address of the service: the path of a Unix socket, https://HOST, or http://127.0.0.1:PORT of this computer.
        Default: $BATCHCAST_SERVICE, else /run/batchcast/api.sock.
    token
        A bearer token (`batchcast site token create`). Default: $BATCHCAST_TOKEN. The Unix socket needs no token. A
        token is sent only over TLS, or to a Unix socket that no other user can have made.
    patience_s
        Longest wait for one answer, seconds.
    user_header
        Name of the HTTP header in which a trusted portal (`proxy_from`) sends its user's name: the site's setting
        `proxy_header`.

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
        """Return the time limit to request, in seconds: the suggested limit, but at most `written_s`.

        Parameters
        ----------
        written_s
            The time limit that the workflow would request, in seconds.
        name
            Name of the job.
        attempt
            Number of the job's attempt, from 1. From the second attempt on, `written_s` is returned, because the
            suggested limit may have been too short.
        procs, partition
            Number of tasks and partition of the job.

        Returns
        -------
        float
        """
        with self._failing_open():
            if attempt <= 1:
                asked = {"name": name, "ntasks": procs, "partition": partition, "time": max(int(written_s / 60), 1)}
                return min(_number(self.ask("hint", asked), "limit_s") or written_s, written_s)
        return written_s

    def memory_mib(
        self, written_mib: float, name: str, *, attempt: int = 1, held_mib: float | None = None, procs: int = 1,
        partition: str = "",
    ) -> float:  # fmt: skip
        """Return the memory per node to request, in MiB: the suggested amount, but at most `written_mib`.

        Parameters
        ----------
        written_mib
            The memory that the workflow would request, in MiB per node.
        name
            Name of the job. For a new name, the suggestion comes from the user's jobs with other names.
        attempt
            Number of the job's attempt, from 1. From the second attempt on, the result is `held_mib` times 1.5 for each
            further attempt, at most `written_mib`, or `written_mib` if `held_mib` is unknown.
        held_mib
            Memory that the first attempt used, in MiB.
        procs, partition
            Number of tasks and partition of the job.

        Returns
        -------
        float
        """
        with self._failing_open():
            if attempt > 1:
                return written_mib if held_mib is None else min(1.5 ** (attempt - 1) * held_mib, written_mib)
            asked = {"name": name, "ntasks": procs, "partition": partition, "mem": f"{max(int(written_mib), 1)}M"}
            return min((_number(self.ask("hint", asked), "memory_kib") or math.inf) / 1024.0, written_mib)
        return written_mib

    def starts(self, choices: Sequence[int | Mapping[str, object]], user: str = "") -> list[Start | None]:
        """Predict when a job would start if it were submitted now, for each of several choices.

        Parameters
        ----------
        choices
            At most 20 choices, each a number of tasks or a mapping of sbatch's long options.
        user
            User for whom the start is predicted, instead of the caller. Another user is allowed for root on the socket,
            for a proxy that the site trusts (`user_header`), and for all callers if jobs are not private.

        Returns
        -------
        list of Start or None
            Predictions in the order of the choices; None if there is no prediction.
        """
        predicted: list[Start | None] = []
        with self._failing_open():
            predicted = [None] * len(choices)
            asked = [{"ntasks": choice} if isinstance(choice, int) else choice for choice in choices]
            rows = self._rows("choices", {"choice": [urlencode(choice) for choice in asked]}, user) or []
            for place, row in enumerate(rows[: len(asked)]):
                likely, by_90 = _number(row, "likely_start_s"), _number(row, "by_90_start_s")
                if likely is not None and by_90 is not None:
                    predicted[place] = Start(likely, by_90)
        return predicted

    def best_cluster(
        self, options: Mapping[str, object], otherwise: str, *, inputs: Sequence[str] = (), done_by: str = "",
        patience_s: float = 30.0,
    ) -> str:  # fmt: skip
        """Return the cluster that is expected to finish a job first, as `batchcast start --test --where` predicts it.

        This method runs the program `batchcast` of this computer; the program's settings list the clusters in
        `[[cluster]]` tables. All other methods of the client query one service.

        Parameters
        ----------
        options
            The job's sbatch options by their long names: `{"ntasks": 4, "time": "2:00:00", "job-name": "align"}`.
        otherwise
            The cluster to return if the program gives no answer.
        inputs
            Files that the job reads, as for `--input`: `["20G@archive"]`.
        done_by
            If given, choose the cluster with the largest probability to finish by this time, as for `--done-by`.
        patience_s
            Longest wait for the answer, seconds.

        Returns
        -------
        str
        """
        with self._failing_open():
            try:
                lines = [f"#SBATCH --{name}={value}" for name, value in options.items()]
                if any("\n" in line for line in lines):
                    raise ValueError("an option must not contain line breaks")
                words = ["batchcast", "start", "--test", "-", "--where", "--json"]
                words += [f"--input={one}" for one in inputs] + ([f"--done-by={done_by}"] if done_by else [])
                text = "\n".join(["#!/bin/sh", *lines, ""])
                done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=patience_s)
                if done.returncode:
                    raise ValueError((done.stderr.strip().splitlines() or ["no message"])[0])
                return str(json.loads(done.stdout)["results"][0]["cluster"])
            except Exception as error:  # an error must not stop the caller's workflow
                _tell("batchcast start --where does not answer (%s); the job goes to %s", error, otherwise)
        return otherwise

    @contextmanager
    def _failing_open(self) -> Iterator[None]:
        """Write exceptions to the log instead of raising them into the program that submits jobs."""
        try:
            yield
        except Exception as error:
            _tell("batchcast client: wrong arguments (%s: %s); requests stay as written", type(error).__name__, error)

    def ask(self, question: str, parameters: Mapping[str, object]) -> dict[str, Any] | None:
        """Return the first result of /v1/QUESTION; None if the service has no result or does not answer in time."""
        rows = self._rows(question, parameters)
        return rows[0] if rows else None

    def _rows(self, question: str, parameters: Mapping[str, object], user: str = "") -> list[dict[str, Any]] | None:
        """Return all results of the query /v1/QUESTION; None if the service does not answer in time."""
        begun = time.monotonic()
        if begun < self.not_before:
            return None
        try:
            if not user.isprintable():
                raise ValueError("a user name must not contain line breaks")
            header = f"{self.user_header}: {user}\r\n" if self.user_header and user else ""
            given = {**parameters, "user": "" if header else user}
            given = {name: value for name, value in given.items() if value not in ("", None)}
            target = f"/v1/{question}?{urlencode(given, doseq=True)}"
            status, body = self.get(target, header, begun + self.patience_s)
            if status == 401:
                raise ValueError("the token is missing or not valid")
            document = json.loads(body)
            return [dict(row) for row in document["results"]] if status == 200 else None
        except Exception as error:  # after any failure, the caller's request must stay unchanged
            self.not_before = time.monotonic() + REST_S
            _tell("batchcast does not answer (%s: %s); requests stay as written", self.address, error)
            return None

    def get(self, target: str, header: str, until: float) -> tuple[int, bytes]:
        """Return status and body of one GET request over a new connection; the request fails at the monotonic time
        `until`.

        Unlike all other methods, this method raises OSError or ValueError if there is no answer.
        """
        place = urlsplit(self.address)
        if place.scheme not in ("https", "http", "unix", ""):
            raise ValueError(f"{place.scheme} is not known (accepted: a socket's path, https://HOST)")
        if place.scheme == "http" and self.token:
            raise UnsafeAddressError(
                "a token is not sent over plain http: while the service is down, any user of its computer can listen "
                "on its port (accepted: a socket's path, https://HOST)"
            )
        target = place.path.rstrip("/") + target if place.hostname else target
        with self._opened(place, until) as connection:
            token = f"Authorization: Bearer {self.token}\r\n" if self.token else ""
            host = f"Host: {place.netloc or 'localhost'}\r\n"
            head = f"GET {target} HTTP/1.0\r\n{host}{token}{header}Connection: close\r\n\r\n"
            connection.sendall(head.encode())
            received = b""
            while part := _within(connection, until).recv(65536):
                received += part
                if len(received) > MOST_BYTES:
                    raise ValueError(f"the answer has more than {MOST_BYTES} bytes")
        head_of, _, body = received.partition(b"\r\n\r\n")
        return int(head_of.split(None, 2)[1]), body

    def _opened(self, place: SplitResult, until: float) -> socket.socket:
        """Return a connection to the service; try all addresses of a host name in turn."""
        if not place.hostname:
            path = self.address.removeprefix("unix:")
            connection = _connected(socket.AF_UNIX, path, until)
            try:
                _check_owner(path, connection) if self.token else None
            except BaseException:
                connection.close()
                raise
            return connection
        is_tls = place.scheme == "https"
        *addresses, last = _resolved(place.hostname, place.port or (443 if is_tls else 80), until)
        if not is_tls and not all(ip_address(each[4][0].partition("%")[0]).is_loopback for each in (*addresses, last)):
            raise UnsafeAddressError("plain http is only for this computer (accepted: https://HOST, a socket's path)")
        for more, (family, *_, address) in zip(range(len(addresses), 0, -1), addresses):
            now = time.monotonic()  # each address may use an equal share of the remaining time
            with suppress(OSError):
                connection = _connected(family, address, now + (until - now) / (more + 1))
                break
        else:
            connection = _connected(last[0], last[4], until)
        return _tls().wrap_socket(_within(connection, until), server_hostname=place.hostname) if is_tls else connection


@cache
def _tls() -> Any:
    """Return the context that checks certificates of services."""
    import ssl  # most clients use the socket

    return ssl.create_default_context()


def _check_owner(path: str, connection: socket.socket) -> None:
    """Raise UnsafeAddressError unless root, this user, or a user to whom one of them gave a folder answers on a socket.

    In a folder to which everybody can write, such as /tmp, any user could make the socket while the service is down.
    """
    trusted, is_shared = {0, os.geteuid()}, False
    for way in (os.path.abspath(path), os.path.realpath(path)):
        for step in [*reversed(PurePath(way).parents), PurePath(way)]:
            entry = os.lstat(step)
            if is_shared and entry.st_uid not in trusted:
                raise UnsafeAddressError(f"{step} belongs to another user, in a folder that others can write to")
            trusted.add(entry.st_uid)
            if stat.S_ISDIR(entry.st_mode):
                is_shared = bool(entry.st_mode & 0o022)
                if is_shared and not entry.st_mode & stat.S_ISVTX:
                    raise UnsafeAddressError(f"other users can write to {step}, so one of them may listen there")
    if hasattr(socket, "SO_PEERCRED"):
        _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if user not in trusted:
            raise UnsafeAddressError(f"user {user} listens on {path}, and neither owns it nor its folder")


def _resolved(host: str, port: int, until: float) -> list[Any]:
    """Return the addresses of a host name.

    The resolver runs in a thread, because it can take seconds if a name server does not answer.
    """
    results: list[Any] = []

    def resolve() -> None:
        try:
            results.append(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except Exception as error:
            results.append(error)

    thread = threading.Thread(target=resolve, daemon=True)
    thread.start()
    thread.join(max(until - time.monotonic(), 0.0))
    if not results:
        raise TimeoutError(f"{host} is not resolved in time")
    if isinstance(results[0], Exception):
        raise results[0]
    return list(results[0])


def _connected(family: int, place: Any, until: float) -> socket.socket:
    """Return a connected socket; raise TimeoutError at the time `until`."""
    connection = socket.socket(family)
    try:
        _within(connection, until).connect(place)
    except BaseException:
        connection.close()
        raise
    return connection


def _tell(words: str, *more: object) -> None:
    """Write a line to the logger, and ignore failures to write."""
    with suppress(Exception):
        LOG.warning(words, *more)


def _clock(at: float, now: float) -> str:
    """Return a time as text, rounded up to the minute."""
    local, today = time.localtime(math.ceil(at / 60) * 60), time.localtime(now)
    return time.strftime("%H:%M" if local[:3] == today[:3] else "%a %d %b %H:%M", local)


def _within(connection: socket.socket, until: float) -> socket.socket:
    """Set the remaining time as the timeout of the connection; TimeoutError if no time is left."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("no answer in time")
    connection.settimeout(left)
    return connection


def _number(answer: Mapping[str, Any] | None, name: str) -> float | None:
    """Return a field of the service's answer if its value is a plausible amount, else None. The check keeps
    implausible values out of job requests."""
    value: Any = (answer or {}).get(name)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and 0 < value < 1e300 else None


def main(words: Sequence[str] | None = None) -> None:
    """Print the number to request, for `limit SECONDS NAME` and `memory MIB NAME`. Even after errors, the command
    prints a number."""
    parser = argparse.ArgumentParser(
        description="Print the time limit or memory to request for a task, based on similar past jobs. "
        "Without an answer from the service, print the written number."
    )
    parser.add_argument("what", choices=("limit", "memory"))
    parser.add_argument("written", type=float, help="the written time limit in seconds, or memory per node in MiB")
    parser.add_argument("name", help="name of the task's jobs")
    parser.add_argument("--attempt", type=int, default=1, help="number of the attempt; retries are never shortened")
    parser.add_argument("--procs", type=int, default=1)
    parser.add_argument("--partition", default="")
    parser.add_argument("--held", type=float, help="MiB that the previous attempt used when it ran out of memory")
    words = sys.argv[1:] if words is None else words
    try:
        given, client = parser.parse_args(words), Client()
    except SystemExit as stop:
        if stop.code and len(words) > 1 and words[1].replace(".", "", 1).isdigit():
            print(words[1])  # print the unchanged request; the error is on stderr and in the exit code
        raise
    options = {"attempt": given.attempt, "procs": given.procs, "partition": given.partition}
    if given.what == "memory":
        options["held_mib"] = given.held
    number = client.memory_mib if given.what == "memory" else client.limit_s
    print(f"{number(given.written, given.name, **options):.0f}")


if __name__ == "__main__":
    main()
