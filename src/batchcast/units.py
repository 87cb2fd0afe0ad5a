# SPDX-License-Identifier: Apache-2.0
"""Slurm's times, memory sizes and node lists: the only place where batchcast parses or prints them."""

from __future__ import annotations

import math
import re
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
_LONGEST = 60  # digits and marks of a time: more are no number that a machine counts
_PART = r"(\d+(?:\.\d+)?)\s*(s|m|h|d|w|sec(?:ond)?s?|min(?:ute)?s?|hrs?|hours?|days?|weeks?)"
_EVERYDAY = re.compile(rf"{_PART}(?:\s*{_PART})*", re.IGNORECASE)
_EVERYDAY_PART = re.compile(_PART + r"(?![a-z])", re.IGNORECASE)
_EVERYDAY_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGTPE]?)(?:i?B)?\s*([nc]?)", re.IGNORECASE)
_MEMORY_UNITS = {"K": 1.0, "M": 1024.0, "G": 1024.0**2, "T": 1024.0**3, "P": 1024.0**4, "E": 1024.0**5}


LONGEST_TIME = 100


def parse_duration(text: str) -> float:
    """Seconds from one of Slurm's six time forms or an everyday one; infinity for UNLIMITED, NaN for an unknown time.

    Slurm's forms (sbatch(1), --time): M, M:S, H:M:S, D-H, D-H:M, D-H:M:S; a fraction of a second may follow (sacct's
    CPU times carry one). Everyday forms: numbers with s, m, h, d or w or these words written out, largest unit first
    (1h30m, 2 days). A bare number is minutes, as Slurm has it. Raises UsageError for anything else. O(length).

    >>> parse_duration("90"), parse_duration("1:30"), parse_duration("1:00:00"), parse_duration("1-12")
    (5400.0, 90.0, 3600.0, 129600.0)
    >>> parse_duration("6h"), parse_duration("1h30m"), parse_duration("2 days"), parse_duration("1.5 min")
    (21600.0, 5400.0, 172800.0, 90.0)
    """
    word = text.strip()
    lowered = word.lower()
    if lowered in _UNLIMITED:
        return math.inf
    if lowered in _UNKNOWN:
        return math.nan
    if len(word) > LONGEST_TIME:  # Python makes no number of thousands of digits, and nobody means one
        raise UsageError(f"not a time: {text[:40]!r}... (accepted: {DURATION_FORMS})")
    match = _DURATION.fullmatch(word)
    if match is None:
        return _everyday(word, text)
    if len(word) > _LONGEST:
        raise UsageError(f"not a time: {text[:40]!r} (accepted: {DURATION_FORMS})")
    parts = [int(part) for part in match["rest"].split(":")]
    if match["days"] is not None:  # D-H, D-H:M, D-H:M:S
        hours, minutes, seconds = (parts + [0, 0])[:3]
        total = int(match["days"]) * 86400 + hours * 3600 + minutes * 60 + seconds
    elif len(parts) == 1:
        total = parts[0] * 60
    elif len(parts) == 2:
        total = parts[0] * 60 + parts[1]
    else:
        total = parts[0] * 3600 + parts[1] * 60 + parts[2]
    return total + float(match["fraction"] or 0.0)


def _everyday(word: str, text: str) -> float:
    """Seconds from numbers with units, each unit smaller than the one before."""
    parts = [(float(n), _EVERYDAY_UNITS[unit[0].lower()]) for n, unit in _EVERYDAY_PART.findall(word)]
    sizes = [size for _, size in parts]
    if not _EVERYDAY.fullmatch(word) or sizes != sorted(set(sizes), reverse=True):
        raise UsageError(f"not a time: {text!r} (accepted: {DURATION_FORMS})")
    return sum(n * size for n, size in parts)


def parse_span(text: str) -> float:
    """As `parse_duration`, where a bare number is refused: it is minutes to Slurm and seconds to most people.

    >>> parse_span("10m"), parse_span("1.5h"), parse_span("1-00")
    (600.0, 5400.0, 86400.0)
    """
    bare = text.strip().replace(".", "", 1).isdecimal() or not text.strip()
    try:
        seconds = math.nan if bare else parse_duration(text)
    except UsageError:
        bare = True
    if bare:
        raise UsageError(f"not a span of time: {text!r} (accepted: {SPAN_FORMS})")
    return seconds


TIME_FORMS = (
    "2024-01-31, 2024-01-31T14:00[:00] with or without an offset, 14:00, today, yesterday, tomorrow, midnight, noon, "
    "now, now-7days, now+2hours, @seconds or uts-seconds since 1970"
)
_DAYS = {"today": 0, "midnight": 0, "yesterday": -1, "tomorrow": 1}
_HOURS = {"noon": 12, "fika": 15, "teatime": 16}


def parse_when(text: str, now: float, where: tzinfo | None = None) -> float:
    """Epoch seconds of a time in any of Slurm's forms, or a date: the one grammar of every option that takes a time.

    now, now+1hour, now-7days, today, yesterday, tomorrow, midnight, noon, HH:MM[:SS], YYYY-MM-DD[THH:MM[:SS]], uts100,
    @100. `now` is in epoch seconds. Times are local to `where` (by default to this machine) unless they carry an
    offset; one that a clock change skips or repeats is taken with the offset before the change. UsageError otherwise.

    >>> from datetime import UTC
    >>> parse_when("yesterday", 90000.0, UTC), parse_when("now-1hour", 90000.0), parse_when("1970-01-02", 0.0, UTC)
    (0.0, 86400.0, 86400.0)
    """
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
    except (ValueError, OverflowError):  # no form of ours, or beyond the calendar's years 1 to 9999
        raise UsageError(f"not a time: {text[:40]!r} (accepted: {TIME_FORMS})") from None


def parse_share(text: str) -> float:
    """A share strictly between 0 and 1.

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
    """`D-HH:MM:SS` (days only when there are any), rounded to whole seconds; `unlimited` and `-` for infinity and NaN.

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
    """A span of time as people say it: two units at most, the second rounded; `unknown` for NaN and None.

    Slurm's own form (`format_duration`) is for what is pasted, as in `--time=`.

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
    if size < 59.5:
        parts = [(round(size), "s")]
    elif size < 600:
        parts = [(round(size) // 60, "min"), (round(size) % 60, "s")]
    elif size < 86400 - 30:
        minutes = round(size / 60)
        parts = [(minutes // 60, "h"), (minutes % 60, "min")]
    else:
        hours = round(size / 3600)
        parts = [(hours // 24, "d"), (hours % 24, "h")]
    words = " ".join(f"{amount} {unit}" for amount, unit in parts if amount) or "0 s"
    return f"-{words}" if seconds < 0 and words != "0 s" else words


def counted(count: int, noun: str = "job") -> str:
    """So many of something.

    >>> counted(1), counted(2000, "group"), counted(0)
    ('1 job', '2,000 groups', '0 jobs')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


LONGEST_MEMORY = 40
"""Characters of a memory size. More digits would be an infinite number, which nothing can be computed with."""


def parse_memory(text: str, *, nodes: float = 1.0, procs: float = 1.0) -> float:
    """KiB of a whole job from Slurm's ReqMem; a trailing `n` is per node, `c` per processor; NaN when unknown or 0.

    Slurm prints 0 for "all the node's memory" or "not asked": neither is an amount, so both are unknown here.

    >>> parse_memory("4000M"), parse_memory("2Gc", procs=4), parse_memory("0n")
    (4096000.0, 8388608.0, nan)
    """
    word = text.strip()
    if word.lower() in _UNKNOWN:
        return math.nan
    match = _MEMORY.fullmatch(word)
    if match is None or len(word) > LONGEST_MEMORY:
        raise UsageError(f"not a memory size: {text[:40]!r} (accepted: {MEMORY_FORMS})")
    amount = float(match[1]) * _MEMORY_UNITS[(match[2] or "M").upper()]
    scale = {"n": nodes, "c": procs, "": 1.0}[match[3].lower()]
    total = amount * scale
    return total if total > 0 else math.nan


def format_memory(kib: float) -> str:
    """A KiB amount in Slurm's largest unit that keeps it at least 1, one decimal at most.

    >>> format_memory(4194304.0), format_memory(1536.0)
    ('4G', '1.5M')
    """
    if math.isnan(kib):
        return "-"
    for unit in "KMGTP":
        if kib < 1024 or unit == "P":
            return f"{kib:.1f}".removesuffix(".0") + unit
        kib /= 1024
    raise AssertionError("unreachable: P ends the loop")
