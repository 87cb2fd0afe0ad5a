# SPDX-License-Identifier: Apache-2.0
"""The data that the server keeps in memory: the waiting jobs of the collector's last cycle, and track records.

An answer from memory needs no query to the store. The waiting jobs are read again when the store changes. A track
record covers a month of predictions, so it is kept for minutes and computed again in a child process. Answers use the
last track record and do not wait for a new one.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Generic, TypeVar

from ...errors import BatchcastError
from ...store.place import sqlite_path
from ...store.reader import Reader
from ..answers import track_record
from ..answers.advice import rules_of
from ..answers.disclosure import choose_cluster
from ..answers.questions import Hints, QueueSnapshot
from ..answers.track_record import RecordKey, TrackRecord
from ..child_process import in_child
from ..log import Log
from ..settings import Settings, is_private

T = TypeVar("T")

FOR_S = 300.0
READ_S = 600.0


def read_track_records(
    url: str, cluster: str, method: str, parts: Iterable[RecordKey], now: float
) -> dict[RecordKey, dict[str, Any]]:
    """Compute the track records of the last 30 days from a store."""
    since = now - track_record.TRACK_RECORD_S
    with Reader(url) as reader:
        return {
            (part, least): track_record.track_record(reader, cluster, part, method, since, least, now)
            for part, least in parts
        }


LOOK_EVERY_S = 1.0
LATEST_EVERY_S = 10.0
"""Least time (s) between two reads for hints. Reading delays submissions, and the collector changes the store only
every 30 s.
"""
LAST_FOR_S = 30.0
"""A queue in memory answers questions for this many seconds without a new read: the time between two cycles."""
ASK_EVERY_S = 5.0
KEPT_S = 30.0
"""Longest time (s) that an answer is kept. Every answer states when it was computed (`now_s`), and the queue that it
describes is up to 30 s older anyway.
"""
MOST_KEPT, LONGEST_KEPT = 8192, 4096
"""Largest number of kept answers, and of bytes in one of them: together at most 32 MB."""


class AnswerCache(Generic[T]):
    """Keeps answers about one queue, because portals ask about the same jobs every few seconds.

    An answer is forgotten when another queue is read, and otherwise after 15 to `KEPT_S` seconds. The time is drawn at
    random: otherwise all answers computed in a busy second would have to be computed again in the same second.
    """

    def __init__(self) -> None:
        self._queue: QueueSnapshot | None = None
        self._answers: dict[Hashable, tuple[float, T]] = {}

    def get(self, queue: QueueSnapshot, question: Hashable) -> T | None:
        """Return the kept answer to a question about this queue; None if there is none."""
        if queue is not self._queue:
            self._queue, self._answers = queue, {}
        until, answer = self._answers.get(question, (0.0, None))
        return answer if time.monotonic() < until else None

    def keep(self, question: Hashable, answer: T, size: int) -> None:
        """Keep an answer of `size` bytes about the queue of the last `get`, unless it is too long."""
        if len(self._answers) >= MOST_KEPT:
            self._answers = {}
        if size <= LONGEST_KEPT:
            self._answers[question] = time.monotonic() + KEPT_S * random.uniform(0.5, 1.0), answer


class QueueCache:
    """The newest queue of a store. A thread reads the queue again when the store changes. Only one event loop may use
    this object.
    """

    def __init__(self, settings: Settings, log: Log | None = None) -> None:
        self.settings = settings
        self._queue: QueueSnapshot | None = None
        self._looked = -1e300
        self._at_work: asyncio.Task[QueueSnapshot] | None = None
        self._hints = Hints(rules_of(settings))
        self._log = log or Log(lambda _: None)
        self._whose: tuple[str, str] = ("", "")
        self._records: dict[RecordKey, TrackRecord] = {}
        self._records_at = -1e300
        self._renewal: asyncio.Task[None] | None = None

    async def queue(self) -> QueueSnapshot:
        """Return the newest queue. While a newer queue is being read, return the previous queue. Errors of the store
        are raised.
        """
        age = time.monotonic() - self._looked
        if self._queue is not None and age < LOOK_EVERY_S:
            return self._queue
        reading = self._start_reading()
        return self._queue if self._queue is not None and age < LAST_FOR_S else await asyncio.shield(reading)

    def latest(self, however_old: bool = True) -> QueueSnapshot | None:
        """Return the present queue at once, and start to read a newer one. None before the first read.

        With `however_old`, the queue is read rarely, so that a burst of submissions does not cause many reads. Without
        `however_old`, the result is None if `queue` would have to wait.
        """
        age = time.monotonic() - self._looked
        if age >= (LATEST_EVERY_S if however_old else LOOK_EVERY_S):
            self._start_reading()
        return self._queue if however_old or age < LAST_FOR_S else None

    def _start_reading(self) -> asyncio.Task[QueueSnapshot]:
        """Start to read the queue, unless it is being read already; return the task that reads it."""
        if self._at_work is None:
            self._at_work = asyncio.create_task(self._newest())
            self._at_work.add_done_callback(self._done)
        return self._at_work

    def records(self) -> Mapping[RecordKey, TrackRecord]:
        """Return the present track records."""
        return {} if self._queue is None else self._queue.records

    def version(self) -> object | None:
        """Return a value that differs after the store has changed; None before the first read."""
        return None if self._queue is None else self._queue.version

    def _done(self, task: asyncio.Task[QueueSnapshot]) -> None:
        """Keep the queue that the task has read. After an error, the next request reads the queue again."""
        self._at_work = None
        if not task.cancelled() and task.exception() is None:
            self._queue, self._looked = task.result(), time.monotonic()
        else:
            self._queue = None

    async def _newest(self) -> QueueSnapshot:
        """Read the present queue, with the track records of each partition and of all partitions together."""
        queue = await asyncio.to_thread(self._rows)
        least_users = {1, int(self.settings["least_users"])} if is_private(self.settings, queue.memory) else {1}
        parts = {None, *(row["partition_id"] for row in queue.rows)}
        wanted = {(part, least) for part in parts for least in least_users}
        records = self._known_records(queue.cluster, track_record.answering_method(queue.memory), wanted)
        return queue if records is queue.records else replace(queue, records=records)

    def _known_records(self, cluster: str, method: str, wanted: set[RecordKey]) -> Mapping[RecordKey, TrackRecord]:
        """Return the known track records at once, and start to compute missing or outdated track records."""
        if self._whose != (cluster, method):
            self._whose, self._records = (cluster, method), {}
        missing = wanted - self._records.keys()
        is_due = missing or time.monotonic() - self._records_at > FOR_S
        if is_due and (self._renewal is None or self._renewal.done()):
            self._renewal = asyncio.create_task(self._read_records(missing or wanted))
        return self._records

    async def _read_records(self, parts: set[RecordKey]) -> None:
        """Compute track records in a child process. If this fails, answers have no new track records."""
        whose, known = self._whose, {part: self._records.get(part, {}) for part in parts}
        read = partial(read_track_records, self.settings["store"], *whose, parts, time.time())
        try:
            known |= await in_child(read, READ_S)
        except (BatchcastError, OSError, RuntimeError) as error:
            self._log("track_records", f"track records: {str(error).splitlines()[0]}", level="error")
        if whose == self._whose:
            self._records, self._records_at = {**self._records, **known}, time.monotonic()

    def _rows(self) -> QueueSnapshot:
        """Return the queue in the store; the present queue if the store has not changed."""
        version = self._version()
        if self._queue is not None and self._queue.version == version:
            return self._queue
        with Reader(self.settings["store"]) as reader:
            cluster = choose_cluster(reader, self.settings["cluster"] or None)
            memory = reader.memory(cluster)
            method = track_record.answering_method(memory)
            self._hints.learn(reader, cluster, memory)
            return QueueSnapshot(cluster, memory, reader.waiting(cluster, method), {}, version, self._hints)

    def _version(self) -> object:
        """Return a value that differs after each change of the store: the state of the SQLite files, or the time in
        steps of `ASK_EVERY_S`.
        """
        path = sqlite_path(self.settings["store"])
        if path is None:
            return int(time.monotonic() // ASK_EVERY_S)
        states: list[tuple[int, int, int]] = []
        for name in (path, path.with_name(path.name + "-wal")):
            with suppress(OSError):
                state = name.stat()
                states.append((state.st_ino, state.st_size, state.st_mtime_ns))
        return tuple(states)
