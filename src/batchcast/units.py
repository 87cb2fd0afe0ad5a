"""Slurm's times, memory sizes and node lists: the only place where batchcast parses or prints them."""

from __future__ import annotations

import math
import re

from .errors import UsageError

DURATION_FORMS = (
    "minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes, days-hours:minutes:seconds"
)
SPAN_FORMS = "a number with s, m, h or d, e.g. 90s, 10m, 1.5h, 7d, or a Slurm time with a colon or dash"
MEMORY_FORMS = "a number with K, M, G, T or P (Slurm's default unit is M), optionally n (per node) or c (per processor)"

_UNLIMITED = {"unlimited", "infinite", "-1"}
_UNKNOWN = {"", "unknown", "none", "n/a", "invalid", "partition_limit", "not_set"}
_DURATION = re.compile(r"(?:(?P<days>\d+)-)?(?P<rest>\d+(?::\d+){0,2})(?P<fraction>\.\d+)?")
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d|w)", re.IGNORECASE)
_SPAN_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGTPE]?)(?:i?B)?\s*([nc]?)", re.IGNORECASE)
_MEMORY_UNITS = {"K": 1.0, "M": 1024.0, "G": 1024.0**2, "T": 1024.0**3, "P": 1024.0**4, "E": 1024.0**5}


def parse_duration(text: str) -> float:
    """Seconds from one of Slurm's six time forms; infinity for UNLIMITED, NaN for an unknown time.

    Forms (sbatch(1), --time): M, M:S, H:M:S, D-H, D-H:M, D-H:M:S; a fraction of a second may follow (sacct's CPU
    times carry one). Raises UsageError for anything else. O(length).

    >>> parse_duration("90"), parse_duration("1:30"), parse_duration("1:00:00"), parse_duration("1-12")
    (5400.0, 90.0, 3600.0, 129600.0)
    """
    word = text.strip()
    lowered = word.lower()
    if lowered in _UNLIMITED:
        return math.inf
    if lowered in _UNKNOWN:
        return math.nan
    match = _DURATION.fullmatch(word)
    if match is None:
        raise UsageError(f"not a time: {text!r} (accepted: {DURATION_FORMS})")
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


def parse_span(text: str) -> float:
    """Seconds from a short span such as 10m, 1.5h or 7d, or from one of Slurm's forms with a colon or a dash.

    A bare number is refused: it would be minutes to Slurm and seconds to most people.

    >>> parse_span("10m"), parse_span("1.5h"), parse_span("1-00")
    (600.0, 5400.0, 86400.0)
    """
    word = text.strip()
    match = _SPAN.fullmatch(word)
    if match:
        return float(match[1]) * _SPAN_UNITS[match[2].lower()]
    if ":" in word or "-" in word:
        return parse_duration(word)
    raise UsageError(f"not a span of time: {text!r} (accepted: {SPAN_FORMS})")


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
    if match is None:
        raise UsageError(f"not a memory size: {text!r} (accepted: {MEMORY_FORMS})")
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


def count_nodes(text: str) -> int:
    """How many nodes a Slurm node list names, without expanding it.

    >>> count_nodes("n[1-4,7],login0"), count_nodes("rack[0-1]n[01-10]"), count_nodes("None assigned")
    (6, 20, 0)
    """
    if text.strip().lower() in _UNKNOWN | {"none assigned", "(null)"}:
        return 0
    total = 0
    for item in _split_outside_brackets(text.strip()):
        product = 1
        for inside in re.findall(r"\[([^\]]*)\]", item):
            product *= sum(_range_length(piece, text) for piece in inside.split(","))
        total += product
    return total


def _split_outside_brackets(text: str) -> list[str]:
    return [piece for piece in re.split(r",(?![^\[]*\])", text) if piece]


def _range_length(piece: str, whole: str) -> int:
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", piece)
    if match is None or (match[2] is not None and int(match[2]) < int(match[1])):
        raise UsageError(f"not a node list: {whole!r} (accepted: Slurm's, e.g. n[1-4,7],login0)")
    return 1 if match[2] is None else int(match[2]) - int(match[1]) + 1
