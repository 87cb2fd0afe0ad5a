# SPDX-License-Identifier: Apache-2.0
"""Time zones, by name (`Europe/Stockholm`) or by offset (`+01:00`), dates on a log's clock.

And what a document says of the log it is about.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any

from ..errors import UsageError
from ..table import Trace

ZONE_FORMS = "a name such as Europe/Stockholm, an offset such as +01:00, or UTC"
DATE_FORMS = "2004-01-31, 2004-01-31T14:00 or 2004-01-31T14:00:00, local to the zone, or @seconds since 1970"
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2}):?(\d{2})?")


def zone(text: str) -> tzinfo:
    """The zone of a name or an offset; UsageError names the accepted forms and the nearest names.

    >>> zone("+01:00").utcoffset(None), zone("US/Pacific").key
    (datetime.timedelta(seconds=3600), 'US/Pacific')
    """
    word = text.strip()
    if word.upper() in ("UTC", "Z", "GMT"):
        return UTC
    match = _OFFSET.fullmatch(word)
    if match:
        ahead = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
        if ahead < timedelta(hours=24):
            return timezone(ahead if match[1] == "+" else -ahead)
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(word)
    except (ValueError, OSError, KeyError):  # ZoneInfoNotFoundError is a KeyError; odd paths give the others
        raise UsageError(f"not a time zone: {text!r} (accepted: {ZONE_FORMS})", hint=_near(word)) from None


def parse_date(text: str, where: tzinfo) -> float:
    """Epoch seconds of a date or a time of day, local to `where` unless it carries its own offset.

    A local time that a clock change skips or repeats is taken with the offset before the change.

    >>> parse_date("2004-01-01", zone("Europe/Stockholm"))
    1072911600.0
    """
    word = text.strip()
    if re.fullmatch(r"@-?\d+(\.\d+)?", word):
        return float(word[1:])
    try:
        stamp = datetime.fromisoformat(word)
    except ValueError:
        raise UsageError(f"not a date: {text!r} (accepted: {DATE_FORMS})") from None
    return (stamp if stamp.tzinfo else stamp.replace(tzinfo=where)).timestamp()


def format_date(epoch: float, where: tzinfo) -> str:
    """An instant as a local date and time of day, to the second.

    >>> format_date(1072911600, zone("Europe/Stockholm"))
    '2004-01-01 00:00:00'
    """
    if epoch != epoch:
        return "-"
    try:
        return datetime.fromtimestamp(epoch, where).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, OSError, ValueError):
        return f"@{epoch:.0f}"


def _near(word: str) -> str:
    from difflib import get_close_matches
    from zoneinfo import available_timezones

    near = get_close_matches(word, available_timezones(), n=3, cutoff=0.6)
    return f"did you mean {' or '.join(near)}?" if near else ""


def describe_log(trace: Trace) -> dict[str, Any]:
    """The `log` part of a JSON document: where the jobs came from, when, on what, and what was left out."""
    info = trace.info
    where = zone(info.timezone)
    submits = trace.submit_time[[0, -1]] + info.unix_start if len(trace) else [float("nan")] * 2
    first, last = (format_date(float(t), where) for t in submits)
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
