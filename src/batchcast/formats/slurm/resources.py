# SPDX-License-Identifier: Apache-2.0
"""Slurm's host lists, `t[1-3,7],m1`, and its resource strings, `cpu=4,mem=16G,gres/gpu=2`. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from ...errors import UsageError

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


_GRES = re.compile(r"(?:gres[:/])?gpu(?::[A-Za-z_][\w.-]*)?(?::(\d+))?(?:\(.*\))?", re.IGNORECASE)


def parse_tres(text: str) -> dict[str, str]:
    """Amounts by resource as text; empty for an unknown string.

    >>> parse_tres("cpu=4,mem=16G,gres/gpu:a100=2")
    {'cpu': '4', 'mem': '16G', 'gres/gpu:a100': '2'}
    """
    pairs = (item.partition("=") for item in text.split(",") if "=" in item)
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


def tres_gpus(text: str) -> float:
    """GPUs in a TRES string; 0 when it names none, NaN when it is empty.

    The plain `gres/gpu` counts all; where only typed ones (`gres/gpu:a100`) are given, they are added up.

    >>> tres_gpus("cpu=4,gres/gpu=3,gres/gpu:a100=2"), tres_gpus("cpu=4"), tres_gpus("")
    (3.0, 0.0, nan)
    """
    amounts = parse_tres(text)
    if not amounts:
        return math.nan
    if "gres/gpu" in amounts:
        return _amount(amounts["gres/gpu"])
    return sum((_amount(v) for k, v in amounts.items() if k.startswith("gres/gpu:")), 0.0)


def gres_gpus(text: str) -> float:
    """GPUs on each node in a GRES string (ReqGRES); 0 when it names none or is empty.

    >>> gres_gpus("gpu:a100:2,lustre"), gres_gpus("gpu"), gres_gpus("gres:gpu:4"), gres_gpus("")
    (2.0, 1.0, 4.0, 0.0)
    """
    matches = (_GRES.fullmatch(item.strip().removeprefix("PER_NODE:")) for item in re.split(r",(?![^(]*\))", text))
    return float(sum(int(match[1] or 1) for match in matches if match))


def _amount(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
