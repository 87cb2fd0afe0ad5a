"""The waiting jobs as of the collector's last word, held in memory: an answer then costs no question to the store.

Everything in it comes from the store and is thrown away when that has changed; nothing is remembered beyond it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace

from ..store.place import sqlite_path
from ..store.reader import Reader
from . import answers
from .access import choose_cluster
from .advice import rules_of
from .answers import Part, Record
from .hints import Hints, Queue
from .log import Log
from .records import Records
from .settings import Settings, is_private

LOOK_EVERY_S = 1.0
LATEST_EVERY_S = 10.0
"""Reading it anew takes time from whoever submits; a collector looks every 30 s."""
LAST_FOR_S = 30.0
"""As long as a collector leaves between two looks anyhow."""
ASK_EVERY_S = 5.0


class Standing:
    """The newest `Queue` of a store, read anew in a thread when the store has changed. One event loop uses it."""

    def __init__(self, settings: Settings, log: Log | None = None) -> None:
        self.settings = settings
        self._queue: Queue | None = None
        self._looked = -1e300
        self._at_work: asyncio.Task[Queue] | None = None
        self._records = Records(settings["store"], log or Log(lambda _: None))
        self._hints = Hints(rules_of(settings))

    async def queue(self) -> Queue:
        """What waits. While a newer one is being read, the last one answers; one errors where the store does."""
        now = time.monotonic()
        if self._queue is not None and now - self._looked < LOOK_EVERY_S:
            return self._queue
        if self._at_work is None:
            self._at_work = asyncio.create_task(self._newest())
            self._at_work.add_done_callback(self._done)
        if self._queue is not None and now - self._looked < LAST_FOR_S:
            return self._queue
        return await asyncio.shield(self._at_work)

    def latest(self, however_old: bool = True) -> Queue | None:
        """What is at hand, at once; a newer one is read behind it. None before there is any.

        However old: not for each of a burst's submissions. Otherwise as `queue` has it, None where that would wait.
        """
        age = time.monotonic() - self._looked
        if age >= (LATEST_EVERY_S if however_old else LOOK_EVERY_S) and self._at_work is None:
            self._at_work = asyncio.create_task(self._newest())
            self._at_work.add_done_callback(self._done)
        return self._queue if however_old or age < LAST_FOR_S else None

    def records(self) -> Mapping[Part, Record]:
        """The track records at hand."""
        return {} if self._queue is None else self._queue.records

    def version(self) -> object | None:
        """What changes with the store; None before it was read."""
        return None if self._queue is None else self._queue.version

    def _done(self, task: asyncio.Task[Queue]) -> None:
        self._at_work = None
        if not task.cancelled() and task.exception() is None:
            self._queue, self._looked = task.result(), time.monotonic()
        else:
            self._queue = None

    async def _newest(self) -> Queue:
        """The queue as it stands now, with the track records of its partitions and of all of them together."""
        queue = await asyncio.to_thread(self._rows)
        least_users = {1, int(self.settings["least_users"])} if is_private(self.settings, queue.memory) else {1}
        parts = {None, *(row["partition_id"] for row in queue.rows)}
        wanted = {(part, least) for part in parts for least in least_users}
        records = self._records.of(queue.cluster, answers.answering_method(queue.memory), wanted)
        return queue if records is queue.records else replace(queue, records=records)

    def _rows(self) -> Queue:
        version = self._version()
        if self._queue is not None and self._queue.version == version:
            return self._queue
        reader = Reader(self.settings["store"])
        try:
            return self._read(reader, version)
        finally:
            reader.close()

    def _read(self, reader: Reader, version: object) -> Queue:
        cluster = choose_cluster(reader, self.settings["cluster"] or None)
        memory = reader.memory(cluster)
        method = answers.answering_method(memory)
        self._hints.learn(reader, cluster, memory)
        return Queue(cluster, memory, reader.waiting(cluster, method), {}, version, self._hints)

    def _version(self) -> object:
        """Something else after each change of the store: an SQLite file's state, or the time in steps."""
        path = sqlite_path(self.settings["store"])
        if path is None:
            return int(time.monotonic() // ASK_EVERY_S)
        states: list[tuple[int, int, int] | None] = []
        for name in (path, path.with_name(path.name + "-wal")):
            try:
                state = name.stat()
                states.append((state.st_ino, state.st_size, state.st_mtime_ns))
            except OSError:
                states.append(None)
        return tuple(states)
