"""How answers have come out, by partition: kept for minutes, worked out anew in a process of its own.

A track record goes over a month of forecasts. An answer quotes it, and does not wait for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from ..errors import BatchcastError
from ..store.reader import Reader
from . import answers
from .answers import Part, Record
from .child import in_child
from .log import Log

FOR_S = 300.0
READ_S = 600.0


class Records:
    """The track records of the method that answers on one cluster of a store. One event loop uses it."""

    def __init__(self, url: str, log: Log) -> None:
        self.url, self._log = url, log
        self._whose: tuple[str, str] = ("", "")
        self._kept: dict[Part, Record] = {}
        self._at = -1e300
        self._renewal: asyncio.Task[None] | None = None

    def of(self, cluster: str, method: str, parts: Iterable[Part]) -> Mapping[Part, Record]:
        """What is known of these, at once; what is missing or old is being worked out from now on."""
        wanted = set(parts)
        if self._whose != (cluster, method):
            self._whose, self._kept = (cluster, method), {}
        missing = wanted - self._kept.keys()
        if (missing or time.monotonic() - self._at > FOR_S) and (self._renewal is None or self._renewal.done()):
            self._renewal = asyncio.create_task(self._read(missing or wanted))
        return self._kept

    async def _read(self, parts: set[Part]) -> None:
        whose = self._whose
        known: Mapping[Part, Record]
        try:
            known = await in_child(partial(read, self.url, *whose, parts, time.time()), READ_S)
        except (BatchcastError, OSError, RuntimeError) as error:  # an answer without its record is one, too
            self._log("track_records", f"track records: {str(error).splitlines()[0]}", level="error")
            known = {part: self._kept.get(part, {}) for part in parts}
        if whose == self._whose:
            self._kept = {**self._kept, **known}
            self._at = time.monotonic()


def read(url: str, cluster: str, method: str, parts: Iterable[Part], now: float) -> dict[Part, dict[str, Any]]:
    """The track records of the last 30 days from a store."""
    reader = Reader(url)
    try:
        since = now - answers.TRACK_RECORD_S
        return {
            (part, least): answers.track_record(reader, cluster, part, method, since, least, now)
            for part, least in parts
        }
    finally:
        reader.close()
