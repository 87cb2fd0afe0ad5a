# SPDX-License-Identifier: Apache-2.0
"""Parse and print durations, dates, memory sizes and shares.

All code that reads or prints times and memory sizes in Slurm's formats uses this module.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from datetime import datetime, timedelta, tzinfo

from .errors import UsageError

DURATION_FORMS = (
    "Slurm's minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes, "
    "days-hours:minutes:seconds; or 90s, 10m, 1.5h, 1h30m, 2 days"
)
SPAN_FORMS = "90s, 10m, 1.5h, 1h30m, 2 days, or a Slurm time with a colon or dash, e.g. 6:00:00, 1-12"
MEMORY_FORMS = "a number with K, M, G, T or P (Slurm's default unit is M), optionally n (per node) or c (per processor)"

_UNLIMITED = {"unlimited", "infinite", "-1"}
_UNKNOWN = {"", "unknown", "none", "n/a", "invalid", "partition_limit", "not_set"}
_DURATION = re.compile(r"(?:(?P<days>\d+)-)?(?P<rest>\d+(?::\d+){0,2})(?P<fraction>\.\d+)?")

_PART = r"(\d+(?:\.\d+)?)\s*(s|m|h|d|w|sec(?:ond)?s?|min(?:ute)?s?|hrs?|hours?|days?|weeks?)"
_EVERYDAY = re.compile(rf"{_PART}(?:\s*{_PART})*", re.IGNORECASE)
_EVERYDAY_PART = re.compile(_PART + r"(?![a-z])", re.IGNORECASE)
_EVERYDAY_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGTPE]?)(?:i?B)?\s*([nc]?)", re.IGNORECASE)
KIB_OF = {"": 1 / 1024, "K": 1.0, "M": 1024.0, "G": 1024.0**2, "T": 1024.0**3, "P": 1024.0**4, "E": 1024.0**5}
"""The KiB in each unit of memory, by the unit's letter; no letter means bytes."""


LONGEST_TIME = 100
"""Longest accepted time, in characters. Python refuses to convert integers of thousands of digits."""


def parse_duration(text: str) -> float:
    """Return the seconds of a duration in one of Slurm's forms or in everyday notation; infinity for UNLIMITED, NaN for
    a word that means unknown.

    >>> parse_duration("90"), parse_duration("1:30"), parse_duration("1:00:00"), parse_duration("1-12")
    (5400.0, 90.0, 3600.0, 129600.0)
    >>> parse_duration("6h"), parse_duration("1h30m"), parse_duration("2 days"), parse_duration("1.5 min")
    (21600.0, 5400.0, 172800.0, 90.0)
    """
    # Slurm has six forms (--time in sbatch(1)): M, M:S, H:M:S, D-H, D-H:M, D-H:M:S. A fraction of a second may follow,
    # because sacct prints CPU times with fractions. A bare number is in minutes, as in Slurm.
    word = text.strip()
    lowered = word.lower()
    if lowered in _UNLIMITED:
        return math.inf
    if lowered in _UNKNOWN:
        return math.nan
    if len(word) > LONGEST_TIME:
        raise UsageError(f"not a time: {text[:40]!r}... (accepted: {DURATION_FORMS})")
    match = _DURATION.fullmatch(word)
    if match is None:
        return _everyday(word, text)
    parts = [int(part) for part in match["rest"].split(":")]
    # D-H, D-H:M, D-H:M:S and H:M:S begin with hours; M and M:S begin with minutes.
    scales = (3600, 60, 1) if match["days"] is not None or len(parts) == 3 else (60, 1)
    total = int(match["days"] or 0) * 86400 + sum(part * scale for part, scale in zip(parts, scales))
    return total + float(match["fraction"] or 0.0)


def _everyday(word: str, text: str) -> float:
    """Return the seconds of a sequence of numbers with units, each unit smaller than the unit before."""
    parts = [(float(n), _EVERYDAY_UNITS[unit[0].lower()]) for n, unit in _EVERYDAY_PART.findall(word)]
    sizes = [size for _, size in parts]
    if not _EVERYDAY.fullmatch(word) or sizes != sorted(set(sizes), reverse=True):
        raise UsageError(f"not a time: {text!r} (accepted: {DURATION_FORMS})")
    return sum(n * size for n, size in parts)


def parse_span(text: str) -> float:
    """Parse a duration as `parse_duration` does, but reject a bare number.

    Slurm reads a bare number as minutes and most people read it as seconds, so options outside Slurm require a unit.

    >>> parse_span("10m"), parse_span("1.5h"), parse_span("1-00")
    (600.0, 5400.0, 86400.0)
    """
    if (word := text.strip()) and not word.replace(".", "", 1).isdecimal():
        with suppress(UsageError):
            return parse_duration(word)
    raise UsageError(f"not a duration with a unit: {text!r} (accepted: {SPAN_FORMS})")


TIME_FORMS = (
    "2024-01-31, 2024-01-31T14:00[:00] with or without an offset, 14:00, today, yesterday, tomorrow, midnight, noon, "
    "now, now-7days, now+2hours, @seconds or uts-seconds since 1970"
)
_DAYS = {"today": 0, "midnight": 0, "yesterday": -1, "tomorrow": 1}
_HOURS = {"noon": 12, "fika": 15, "teatime": 16}


def parse_when(text: str, now: float, where: tzinfo | None = None) -> float:
    """Parse a point in time, in one of Slurm's forms or as an ISO 8601 date.

    All options that take a time use this function.

    >>> from datetime import UTC
    >>> parse_when("yesterday", 90000.0, UTC), parse_when("now-1hour", 90000.0), parse_when("1970-01-02", 0.0, UTC)
    (0.0, 86400.0, 86400.0)
    """
    # Accepted: now, now+1hour, now-7days, today, yesterday, tomorrow, midnight, noon, HH:MM[:SS],
    # YYYY-MM-DD[THH:MM[:SS]], uts100 and @100.
    #
    # A local time that a clock change skips or repeats is read with the offset from before the change.
    word = text.strip()
    if match := re.fullmatch(r"uts(\d+)|@(-?\d+(?:\.\d+)?)", word):
        return float(match[1] or match[2])
    here = datetime.fromtimestamp(now, where)
    midnight = here.replace(hour=0, minute=0, second=0, microsecond=0)
    try:
        if match := re.fullmatch(r"now(?:([+-]\d+)\s*(seconds?|minutes?|hours?|days?|weeks?)?)?", word):
            unit = (match[2] or "seconds").rstrip("s") + "s"
            return (here + timedelta(**{unit: int(match[1] or 0)})).timestamp()
        if word in _DAYS:
            return (midnight + timedelta(days=_DAYS[word])).timestamp()
        if word in _HOURS:
            return midnight.replace(hour=_HOURS[word]).timestamp()
        if re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", word):
            hours, minutes, *seconds = (int(part) for part in word.split(":"))
            return midnight.replace(hour=hours, minute=minutes, second=seconds[0] if seconds else 0).timestamp()
        stamp = datetime.fromisoformat(word)
        return (stamp if stamp.tzinfo else stamp.replace(tzinfo=where)).timestamp()
    except (ValueError, OverflowError):  # no accepted form, or a year outside datetime's range (1 to 9999)
        raise UsageError(f"not a time: {text[:40]!r} (accepted: {TIME_FORMS})") from None


def parse_share(text: str) -> float:
    """Parse a share strictly between 0 and 1, a fraction (0.05) or a percentage (5%), to a fraction.

    >>> parse_share("5%"), parse_share("0.1")
    (0.05, 0.1)
    """
    word = text.strip()
    try:
        value = float(word.removesuffix("%")) / (100 if word.endswith("%") else 1)
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        raise UsageError(f"{text!r} is not a share (accepted: above 0 and below 1, e.g. 0.05 or 5%)")
    return value


def format_duration(seconds: float) -> str:
    """Format seconds as Slurm prints a time: `D-HH:MM:SS`, without `D-` if the time is shorter than a day.

    >>> format_duration(93784), format_duration(59.6), format_duration(float("nan"))
    ('1-02:03:04', '00:01:00', '-')
    """
    if math.isnan(seconds):
        return "-"
    if math.isinf(seconds):
        return "unlimited"
    whole = math.floor(abs(seconds) + 0.5)
    sign = "-" if seconds < 0 and whole else ""
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, secs = divmod(rest, 60)
    clock = f"{hours:02d}:{minutes:02d}:{secs:02d}"
    return f"{sign}{days}-{clock}" if days else f"{sign}{clock}"


def span(seconds: float | None, unknown: str = "unknown") -> str:
    """Format a duration for people to read, with at most two units.

    Use `format_duration` for texts that Slurm reads, such as a `--time=` option.

    >>> [span(s) for s in (0.4, 42, 125, 3599.8, 8733, 200000, -90)]
    ['0 s', '42 s', '2 min 5 s', '1 h', '2 h 26 min', '2 d 8 h', '-1 min 30 s']
    >>> span(float("nan")), span(float("inf"))
    ('unknown', 'unlimited')
    """
    if seconds is None or math.isnan(seconds):
        return unknown
    if math.isinf(seconds):
        return "unlimited"
    size = abs(seconds)
    if size < 600:
        amounts, units = divmod(round(size), 60), ("min", "s")
    elif size < 86400 - 30:
        amounts, units = divmod(round(size / 60), 60), ("h", "min")
    else:
        amounts, units = divmod(round(size / 3600), 24), ("d", "h")
    words = " ".join(f"{amount} {unit}" for amount, unit in zip(amounts, units) if amount) or "0 s"
    return f"-{words}" if seconds < 0 and words != "0 s" else words


def counted(count: int, noun: str = "job") -> str:
    """Format a number of things with its noun, in the plural if needed.

    >>> counted(1), counted(2000, "group"), counted(0)
    ('1 job', '2,000 groups', '0 jobs')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def shortest(value: object) -> str:
    """Format a value as text, with whole numbers as integers.

    >>> shortest(7.0), shortest(0.1), shortest(float("inf")), shortest("a")
    ('7', '0.1', 'inf', 'a')
    """
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


LONGEST_MEMORY = 40
"""Longest accepted memory size, in characters. With some hundred digits, the number would overflow to infinity."""


def parse_memory(text: str, *, nodes: float = 1.0, procs: float = 1.0) -> float:
    """Return the KiB of a memory size in Slurm's notation, for a whole job; NaN for an unknown size and for 0.

    >>> parse_memory("4000M"), parse_memory("2Gc", procs=4), parse_memory("0n")
    (4096000.0, 8388608.0, nan)
    """
    # The unit is K, M, G, T, P or E, by default M. A trailing `n` means per node, `c` per processor.
    #
    # Slurm prints 0 both for "all memory of the node" and for "no request". Therefore 0 becomes NaN, because neither
    # meaning of 0 is an amount of memory.
    word = text.strip()
    if word.lower() in _UNKNOWN:
        return math.nan
    match = _MEMORY.fullmatch(word)
    if match is None or len(word) > LONGEST_MEMORY:
        raise UsageError(f"not a memory size: {text[:40]!r} (accepted: {MEMORY_FORMS})")
    scale = {"n": nodes, "c": procs, "": 1.0}[match[3].lower()]
    total = float(match[1]) * KIB_OF[(match[2] or "M").upper()] * scale
    return total if total > 0 else math.nan


def format_memory(kib: float) -> str:
    """Format a memory size in the largest unit in which it is at least 1, with at most one decimal.

    >>> format_memory(4194304.0), format_memory(1536.0)
    ('4G', '1.5M')
    """
    if math.isnan(kib):
        return "-"
    power = next((power for power in range(4) if kib < 1024 ** (power + 1)), 4)
    return f"{kib / 1024**power:.1f}".removesuffix(".0") + "KMGTP"[power]
