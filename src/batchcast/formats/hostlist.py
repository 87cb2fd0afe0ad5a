"""Slurm's host lists: `t[1-3,7],m1` and back. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..errors import UsageError

_PART = re.compile(r"([^\[\],]+)(?:\[([^\]]*)\])?([^\[\],]*)")
_NUMBERED = re.compile(r"(.*?)(\d+)$")
MOST = 1 << 20


def expand(text: str) -> tuple[str, ...]:
    """Names in the order written; UsageError for a broken list or more than a million names.

    >>> expand("t[1-3,07],m1"), expand("(null)")
    (('t1', 't2', 't3', 't07', 'm1'), ())
    """
    word = text.strip()
    if word in ("", "(null)", "None assigned", "N/A"):
        return ()
    names: list[str] = []
    place = 0
    while place < len(word):
        match = _PART.match(word, place)
        if match is None:
            raise UsageError(f"not a node list: {text[:80]!r} (accepted: t1,t2 or t[1-14,20])")
        names += [match[1] + number + match[3] for number in _numbers(match[2], text)] if match[2] else [match[1]]
        if len(names) > MOST:
            raise UsageError(f"a node list of more than {MOST} names: {text[:80]!r}")
        place = match.end() + 1
    return tuple(names)


def fold(names: Iterable[str]) -> str:
    """The short form of names, neighbours with one stem together, in their order.

    >>> fold(["t1", "t2", "t3", "t9", "m1"])
    't[1-3,9],m1'
    """
    stems: list[tuple[str, list[list[int]]]] = []
    for name in names:
        match = _NUMBERED.match(name)
        stem, number = (match[1], int(match[2])) if match and str(int(match[2])) == match[2] else (name, -1)
        if not stems or stems[-1][0] != stem or number < 0:
            stems.append((stem, []))
        spans = stems[-1][1]
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        elif number >= 0:
            spans.append([number, number])
    return ",".join(stem + _spans(spans) for stem, spans in stems)


def _spans(spans: list[list[int]]) -> str:
    if not spans:
        return ""
    text = ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in spans)
    return text if text.isdigit() else f"[{text}]"


def _numbers(inside: str, text: str) -> list[str]:
    out: list[str] = []
    for item in inside.split(","):
        low, dash, high = item.partition("-")
        if not low.isdigit() or (dash and not high.isdigit()) or (dash and int(high) - int(low) > MOST):
            raise UsageError(f"not a node list: {text[:80]!r} (accepted: t1,t2 or t[1-14,20])")
        last = int(high) if dash else int(low)
        out += [str(k).zfill(len(low)) for k in range(int(low), last + 1)]
    return out
