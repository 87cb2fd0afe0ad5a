# SPDX-License-Identifier: Apache-2.0
"""Writes the log of a daemon, one line per event: text for people, or a JSON object with time, level and event."""

from __future__ import annotations

import datetime
import json
import re
import time
from collections.abc import Callable
from typing import Any

from ..document import plain

_BARE = re.compile(r"[\w.@:+-]+")


class Log:
    """Writes events as lines to `sink`, in the format of the setting `log_format`.

    >>> Log(print)("request", user="ada", status=200, ms=1.25)
    user=ada status=200 ms=1.25
    >>> Log(print)("defect", "KeyError: 'x'", level="error", user="ada")
    error user=ada KeyError: 'x'
    >>> Log(print, "json", clock=lambda: 0.0)("request", user=None, status=200)
    {"time":"1970-01-01T00:00:00.000Z","level":"info","event":"request","user":null,"status":200}
    """

    def __init__(
        self,
        sink: Callable[[str], None],
        form: str = "text",
        clock: Callable[[], float] = time.time,
        dated: bool = False,
    ) -> None:
        self.sink, self.is_json, self._clock, self.is_dated = sink, form == "json", clock, dated

    def __call__(self, event: str, words: str = "", *, level: str = "info", **fields: Any) -> None:
        """Write one event with its message and fields. Text lines omit the event's name, and every level except
        `error`.
        """
        if self.is_json:
            at = datetime.datetime.fromtimestamp(self._clock(), datetime.UTC)
            stamp = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            line = {"time": stamp, "level": level, "event": event, **({"message": words} if words else {}), **fields}
            self.sink(json.dumps(plain(line), separators=(",", ":")))
        else:
            shown = [f"{name}={_bare(value)}" for name, value in fields.items()]
            begin = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(self._clock())) if self.is_dated else ""
            self.sink(" ".join(part for part in (begin, "error" if level == "error" else "", *shown, words) if part))


def _bare(value: Any) -> str:
    """Return a value for `name=value`. A value of several words is quoted, so that an event stays on one line."""
    if value is None:
        return "-"
    text = str(value)
    return text if _BARE.fullmatch(text) else repr(text)
