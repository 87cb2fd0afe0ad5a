# SPDX-License-Identifier: Apache-2.0
"""The work of `grid serve`: gives jobs to a broker as they arrive over a unix socket or in a folder, and writes the
broker's decisions."""

from __future__ import annotations

import asyncio
import fcntl
import json
import math
import os
import secrets
import stat
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..ceilings import without_links
from ..cli.interrupt import stop_on_signals
from ..cli.output import echo, say, write_text
from ..errors import BatchcastError, UsageError
from ..predict.registry import make
from .clock import MappingRule
from .files import read_platform
from .live import Broker, Journal, amount
from .page import broker_page

if TYPE_CHECKING:
    from .on_clusters import ClusterBroker

MOST_BYTES = 1 << 20
"""Maximum length of a line; a longer line ends its connection."""
LOOK_EVERY_S = 0.5


def serve(platform: Path | None, listen: Path | None, spool: Path | None, how: Mapping[str, Any]) -> None:
    """Map jobs from a socket (`listen`) or a folder (`spool`) to the resources of a platform, or to the configured
    clusters if `platform` is None, until stopped; `how` has the other options of `grid serve`."""
    rule = mapping_rule(how["every"], how["late"])
    broker_of = _on_clusters(how["submit"]) if platform is None else partial(Broker, *read_platform(platform))
    state: Path = how["state"]
    state.mkdir(parents=True, exist_ok=True)
    lock = _alone(state)
    broker = broker_of(make("heuristic", how["heuristic"]), rule, Journal(state / "journal.jsonl"))
    stop = stop_on_signals()
    serving = Serving(broker, state / "assignments.jsonl", how["page"], how["virtual"])
    say(*broker.journal.problems, *serving.answers.problems)
    serving.tell()
    serving.draw()  # the process may have been killed before it wrote the page
    said = broker.counts
    say(f"{said['jobs']} jobs known from {state}, {said['waiting']} waiting; new jobs come from {listen or spool}")
    if spool is not None:
        _from_spool(serving, spool, stop, how["once"])
    elif listen is not None:
        asyncio.run(_from_socket(serving, listen, stop))
    os.close(lock)


def mapping_rule(every: str, late: Any, remap: bool = False) -> MappingRule:
    """Return the mapping rule of --map-every (time units, or `events`), --late and --remap."""
    return MappingRule(None if every == "events" else finite_number("--map-every", every), remap, late)


def finite_number(option: str, text: str) -> float:
    """Return an option's value as a finite number; UsageError names the option."""
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"{option}: {text!r} is not a number") from None
    if not math.isfinite(value):
        raise UsageError(f"{option}: {text!r} is not a finite number")
    return value


def _on_clusters(submits: bool) -> Callable[..., Any]:
    """Return a function that makes a broker for the clusters of batchcast.toml."""
    from ..cli.site_options import myself
    from ..clusters.configured import configured
    from ..service.settings import load
    from ..store.ledger import Ledger, ledger_path
    from .on_clusters import ClusterBroker, OfClusters

    known = configured()
    for problem in known.problems:
        say(problem)
    known.require()
    clusters = OfClusters(known, load(), myself(), Ledger(ledger_path(os.environ)), partial(echo, err=True))
    return partial(ClusterBroker, clusters, submits=submits)


def _alone(state: Path) -> int:
    """Lock a state folder, because two brokers would write to one journal; return the lock's file descriptor."""
    lock = os.open(state / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        hint = "give this broker another --state, or stop the other"
        raise BatchcastError(f"another broker uses {state}", hint=hint) from None
    return lock


class Serving:
    """A broker with its clock and the file of its decisions."""

    def __init__(self, broker: Broker | ClusterBroker, answers: Path, page: Path | None, virtual: bool) -> None:
        self.broker, self.answers, self.page, self.virtual = broker, Journal(answers), page, virtual
        self.is_over = False
        # the process may have been killed before it wrote its decisions; the journal gives these decisions again, so
        # `tell` writes the decisions that are not in the file
        self._written: set[str] = set()
        self.answers.replay(lambda line: self._written.add(line["id"]))
        self._in_file = 0  # the number of the broker's decisions that are in the file

    def take(self, text: str) -> dict[str, Any]:
        """Return the broker's reply to one line of a request."""
        try:
            job = json.loads(text)
            json.dumps(job, ensure_ascii=False).encode()  # half a surrogate pair could not be written to page or disk
        except (RecursionError, ValueError):
            return {"ok": False, "error": "no JSON: send one job a line, in UTF-8, nested at most a few levels"}
        question = job.get("ask") if isinstance(job, dict) else None
        try:
            if question == "jobs":
                return {"ok": True, "jobs": self.broker.table()}
            if question == "free":
                return {"ok": True, "free": self.broker.free_at(), **self.broker.counts}
            if question is not None:
                raise UsageError(f"ask {str(question)[:20]!r} (accepted: jobs, free)")
            if job == {"end": True}:
                self.finish()
                self.is_over = True
                return {"ok": True, **self.broker.counts}
            reply = self.broker.offer(job, self._arrival(job))
            self.tell()
            return reply
        except BatchcastError as error:
            return {"ok": False, "error": error.message}

    def _arrival(self, job: Any) -> float:
        """Return the job's `arrival` if the broker's clock is virtual, else the present time."""
        if not self.virtual:
            return time.time()
        try:
            return amount(job["arrival"])
        except (KeyError, OverflowError, TypeError, ValueError):
            raise UsageError("--virtual needs the job's arrival, a number from 0") from None

    def step(self) -> None:
        """Run the mapping events that are due."""
        if not self.virtual:
            self.broker.advance(time.time())
            self.tell()

    def finish(self) -> None:
        """Decide about the waiting jobs as if no more jobs arrive."""
        self.broker.finish()
        self.tell()

    def tell(self) -> None:
        """Append the broker's new decisions to the file, and rewrite the page."""
        new = [line for line in self.broker.decisions[self._in_file :] if line["id"] not in self._written]
        self._in_file = len(self.broker.decisions)
        if new:
            self.answers.add(*new)
            self.draw()

    def draw(self) -> None:
        """Write the HTML page with all jobs."""
        if self.page is not None:
            write_text(self.page, broker_page(self.broker))


def _from_spool(serving: Serving, spool: Path, stop: Callable[[float], bool], once: bool) -> None:
    """Accept the job files of a folder by name; move each to done/, or to rejected/ with the reason."""
    for folder in (spool / "done", spool / "rejected"):
        folder.mkdir(parents=True, exist_ok=True)
        if folder.is_symlink():
            raise UsageError(f"{folder} is a link (accepted: a folder; files would be moved to where the link points)")
    while True:
        for path in sorted(spool.glob("*.json")):
            text, problem = _text_of_job(path)
            reply: dict[str, Any] = {"ok": False, "error": problem} if problem else serving.take(text)
            say(*(f"{path.name}: {reply[key]}" for key in ("warning", "error") if key in reply))
            if not reply["ok"]:
                why = spool / "rejected" / f"{path.name}.why"
                why.unlink(missing_ok=True)  # a link of this name would lead the text to another file
                write_text(why, reply["error"] + "\n")
            _move(path, spool / ("done" if reply["ok"] else "rejected"))
        serving.step()
        if once:
            if serving.virtual:
                serving.finish()
            return
        if serving.is_over or stop(LOOK_EVERY_S):
            return


def _text_of_job(path: Path) -> tuple[str, str]:
    """Return the text of a job file, or the reason why the file is not read: a pipe would block the broker."""
    try:
        with open(path, "rb", opener=without_links) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return "", "not a file: write the job to a regular file"
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        return "", f"cannot be read ({error.strerror}): write the job to a regular file that the broker may read"
    if len(data) > MOST_BYTES:
        return "", f"more than {MOST_BYTES >> 20} MiB: one job a file"
    return data.decode(errors="replace"), ""


def _move(path: Path, folder: Path) -> None:
    """Move a file (or link, pipe or folder) into a folder; a folder of this name there is not replaced."""
    target = folder / path.name
    if target.is_dir() or (target.exists() and path.is_dir()):
        target = folder / f"{path.name}.{secrets.token_hex(4)}"
    path.replace(target)


async def _from_socket(serving: Serving, listen: Path, stop: Callable[[float], bool]) -> None:
    """Accept jobs as lines over a unix socket that only its owner can open."""
    received = asyncio.Event()

    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        # a connection ends if the client is gone, or if a line is longer than MOST_BYTES
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError), closing(writer):
            while True:
                if (line := await reader.readuntil()) != b"\n":
                    writer.write(json.dumps(serving.take(line.decode(errors="replace"))).encode() + b"\n")
                    await writer.drain()
                    received.set()

    # the socket gets its name when it accepts connections: a client that sees the file can connect
    unnamed = listen.with_name(f"{listen.name}~")
    unnamed.unlink(missing_ok=True)
    old = os.umask(0o177)
    try:
        server = await asyncio.start_unix_server(answer, unnamed, limit=MOST_BYTES)
    finally:
        os.umask(old)
    unnamed.replace(listen)
    while not serving.is_over and not stop(0.0):
        with suppress(TimeoutError):
            await asyncio.wait_for(received.wait(), LOOK_EVERY_S)
        received.clear()
        serving.step()
    server.close()
    listen.unlink(missing_ok=True)
