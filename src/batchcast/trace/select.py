# SPDX-License-Identifier: Apache-2.0
"""Select jobs of a log by submission date and by names, or mark the jobs to be scored.

Dates are in the log's time zone, given by name (`Europe/Stockholm`) or by offset (`+01:00`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any

import numpy as np

from ..errors import NoAnswer, UsageError
from ..job import SWF_NUMBERS, status_words
from ..table import Nominal, Trace
from ..table.columns import did_you_mean
from ..units import parse_when

ZONE_FORMS = "a name such as Europe/Stockholm, an offset such as +01:00, or UTC"
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2}):?(\d{2})?")


def zone(text: str) -> tzinfo:
    """Return a time zone.

    >>> zone("+01:00").utcoffset(None), zone("US/Pacific").key
    (datetime.timedelta(seconds=3600), 'US/Pacific')
    """
    word = text.strip()
    if word.upper() in ("UTC", "Z", "GMT"):
        return UTC
    if match := _OFFSET.fullmatch(word):
        ahead = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
        if ahead < timedelta(hours=24):
            return timezone(ahead if match[1] == "+" else -ahead)
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(word)
    except (ValueError, OSError, KeyError):  # ZoneInfoNotFoundError is a KeyError; a name like a path raises another
        from zoneinfo import available_timezones

        hint = did_you_mean(word, available_timezones())
        raise UsageError(f"not a time zone: {text!r} (accepted: {ZONE_FORMS})", hint=hint) from None


def parse_date(text: str, where: tzinfo) -> float:
    """Parse a time as `units.parse_when` does, in the time zone `where` unless the text has an offset. Returns epoch
    seconds.

    >>> parse_date("2004-01-01", zone("Europe/Stockholm"))
    1072911600.0
    """
    return parse_when(text, time.time(), where)


def format_date(epoch: float, where: tzinfo) -> str:
    """Format epoch seconds as a local date and time, to the second.

    >>> format_date(1072911600, zone("Europe/Stockholm"))
    '2004-01-01 00:00:00'
    """
    if epoch != epoch:
        return "-"
    try:
        return datetime.fromtimestamp(epoch, where).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, OSError, ValueError):
        return f"@{epoch:.0f}"


def describe_log(trace: Trace) -> dict[str, Any]:
    """Return the `log` part of a JSON document: source, dates, machine, and numbers of dropped records."""
    info = trace.info
    first, last = _ends(trace)
    return {
        "source": info.source,
        "format": info.format,
        "sha256": info.sha256,
        "jobs": len(trace),
        "first_submit": first,
        "last_submit": last,
        "timezone": info.timezone,
        "timezone_source": info.timezone_source,
        "unix_start_s": info.unix_start,
        "machine_procs": info.max_procs,
        "machine_procs_source": info.max_procs_source,
        "machine_nodes": info.max_nodes,
        "dropped": dict(info.dropped),
    }


def _ends(trace: Trace) -> tuple[str, str]:
    """Return the dates of the first and the last submission."""
    submits = trace.submit_time[[0, -1]] + trace.info.unix_start if len(trace) else [float("nan")] * 2
    first, last = (format_date(float(t), zone(trace.info.timezone)) for t in submits)
    return first, last


UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which jobs to select: submitted in [since, until) and with one of the given names in each column.

    Dates are texts (`units.TIME_FORMS`) in the log's time zone. Names are texts as users type them: a status word or
    SWF number, an id, or the name that the log's header gives to an id. `unknown` selects the jobs without a value.
    """

    since: str | None = None
    until: str | None = None
    status: Sequence[str] = ()
    partition: Sequence[str] = ()
    queue: Sequence[str] = ()
    user: Sequence[str] = ()
    cluster: Sequence[str] = ()

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) for field in fields(self))


def select(trace: Trace, selection: Selection, first: int | None = None) -> Trace:
    """Select jobs of a log.

    >>> log = Trace.from_arrays({"submit_time": [0.0, 86400.0], "status": ["completed", "failed"]})
    >>> select(log, Selection(since="1970-01-02")).job_id.tolist(), select(log, Selection(status=["1"])).job_id.tolist()
    ([2], [1])
    """
    info, keep = trace.info, np.ones(len(trace), dtype=bool)
    for option, mask in _masks(trace, selection):
        info = info.with_dropped(f"not selected: {option}", int((keep & ~mask).sum()))
        keep &= mask
    if first is not None:
        if first < 1:
            raise UsageError(f"--first {first} (accepted: a whole number from 1)")
        late = np.cumsum(keep) > first
        info = info.with_dropped(f"not selected: --first {first}", int((keep & late).sum()))
        keep &= ~late
    if not keep.any():
        raise NoAnswer("the selection leaves no job", hint=_range(trace))
    return trace.with_info(info) if keep.all() else trace.take(keep, info)


def selection_mask(trace: Trace, selection: Selection) -> np.ndarray:
    """Return which jobs a selection includes, as booleans of shape (n,). With the returned mask, a study can learn from
    the whole log and score only the selected jobs."""
    masks = (mask for _, mask in _masks(trace, selection))
    return np.asarray(np.logical_and.reduce([np.ones(len(trace), dtype=bool), *masks]))


def _masks(trace: Trace, chosen: Selection) -> Iterable[tuple[str, np.ndarray]]:
    """Yield each option of a selection with its mask."""
    where = zone(trace.info.timezone)
    for option, text, is_in in (("--from", chosen.since, np.greater_equal), ("--to", chosen.until, np.less)):
        if text is not None:
            yield f"{option} {text}", is_in(trace.submit_time, parse_date(text, where) - trace.info.unix_start)
    if chosen.status:
        yield f"--status {','.join(chosen.status)}", _has_status(trace.nominal("status"), chosen.status)
    named = {"partition": "partition_id", "queue": "queue_id", "user": "user_id", "cluster": "cluster"}
    for option, column in named.items():
        if words := getattr(chosen, option):
            yield f"--{option} {','.join(words)}", _has_name(trace, column, option, words)


def _has_status(status: Nominal, chosen: Sequence[str]) -> np.ndarray:
    """Return a mask of the jobs with one of the given statuses."""
    words = {word for text in chosen for word in status_words(text)}
    unknown_words = words - set(SWF_NUMBERS) - set(status.categories) - {UNKNOWN}
    if unknown_words:
        accepted = [*map(str, status.categories), *(w for w in SWF_NUMBERS if w not in status.categories), UNKNOWN]
        raise UsageError(f"not a status: {', '.join(sorted(map(str, unknown_words)))} (accepted: {_list(accepted)})")
    return status.is_any({*words, *([None] if UNKNOWN in words else [])})


def _has_name(trace: Trace, column: str, option: str, words: Sequence[str]) -> np.ndarray:
    """Return a mask of the jobs with one of the given names."""
    values, names = trace.nominal(column), trace.info.names.get(column, {})
    chosen: set[int | str | None] = set()
    for word in words:
        hits: set[Any] = {value for value in values.categories if _means(word, value, names.get(value, ""))}
        hits = {None} if word.lower() == UNKNOWN else hits
        if not hits:
            known = [f"{v} ({names[v].split()[0]})" if names.get(v, "").split() else str(v) for v in values.categories]
            raise UsageError(f"--{option}: the log has no {word!r} (accepted: {_list([*known, UNKNOWN])})")
        chosen |= hits
    return values.is_any(chosen)


def _means(word: str, value: int | str, name: str) -> bool:
    """Whether a user's word matches a value in the log: the value, its name, or the first word of its name."""
    return word == str(value) or (bool(name) and word in (name, name.split()[0]))


def _list(words: Sequence[str]) -> str:
    """Return at most 20 words as a list."""
    shown = ", ".join(words[:20])
    return shown if len(words) <= 20 else f"{shown}, ... {len(words) - 20} more"


def _range(trace: Trace) -> str:
    """Return a hint with the dates of the log."""
    if not len(trace):
        return "select more jobs"
    first, last = _ends(trace)
    return f"jobs were submitted from {first} to {last} ({trace.info.timezone}); widen the selection"
