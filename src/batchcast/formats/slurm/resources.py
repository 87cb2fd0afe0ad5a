# SPDX-License-Identifier: Apache-2.0
"""Slurm's host lists (`t[1-3,7],m1`), resource strings (`cpu=4,mem=16G,gres/gpu=2`) and states of nodes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from itertools import product

from ...errors import UsageError

_ITEM = re.compile(r"(?:[^,\[]|\[[^\]]*\]?)+")
_PART = re.compile(r"\[[^\[\]]*\]|[^\[\]]+")
_NUMBERED = re.compile(r"(.*?)([0-9]{1,18})$")
_SPAN = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")  # str.isdigit() is true of superscripts too
MOST = 1 << 20
"""Largest number of names in one list."""
MOST_NODES = 1 << 18
"""Largest number of nodes of one machine. The largest known machine has 158,976."""
MOST_NAMED = 1 << 24
"""Largest number of names in all node lists of one machine (partitions, reservations and node sets) together."""
_LONGEST = 255
"""Largest number of characters of a node name, as for host names."""


def expand(text: str) -> tuple[str, ...]:
    """Return the names of a host list, in the order written; UsageError if the list is broken or has more than a
    million names.

    >>> expand("t[1-3,07],m1"), expand("r[1-2]n[1-2]"), expand("(null)")
    (('t1', 't2', 't3', 't07', 'm1'), ('r1n1', 'r1n2', 'r2n1', 'r2n2'), ())
    """
    word = text.strip()
    if word in ("", "(null)", "None assigned", "N/A"):
        return ()
    names: list[str] = []
    for item in _ITEM.findall(word):
        parts = _PART.findall(item)
        if "".join(parts) != item:
            raise UsageError(f"not a node list: {text[:80]!r} (accepted: t1,t2 or t[1-14,20])")
        spans = [_spans_of(part[1:-1], text) if part[0] == "[" else part for part in parts]
        if sum(len(part) for part in spans if isinstance(part, str)) > _LONGEST:
            raise UsageError(f"a node name of more than {_LONGEST} characters: {text[:80]!r}")
        counts = (1 if isinstance(part, str) else sum(len(numbers) for numbers, _ in part) for part in spans)
        if len(names) + math.prod(counts) > MOST:
            raise UsageError(f"a node list of more than {MOST} names: {text[:80]!r}")
        choices = (
            [part] if isinstance(part, str) else [str(k).zfill(width) for numbers, width in part for k in numbers]
            for part in spans
        )
        names += map("".join, product(*choices))
    return tuple(names)


class Names:
    """Expands the node lists of one machine, and limits how many names they have together.

    A short text can name a million nodes in each of its lines, so a limit for each list would not limit the memory.

    >>> names = Names(most=3)
    >>> names("t[1-2]")
    ('t1', 't2')
    >>> names("t[1-2]")
    Traceback (most recent call last):
    batchcast.errors.UsageError: the node lists of this machine have more than 3 names together (accepted: at most 3)
    """

    def __init__(self, most: int = MOST_NAMED) -> None:
        self._most, self._left = most, most

    def __call__(self, text: str | tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of one list (see `expand`), or the given names, and count them."""
        names = expand(text) if isinstance(text, str) else text
        self.count(len(names))
        return names

    def count(self, more: int) -> None:
        """Count names that do not come from a list, such as the nodes of `Nodes=ALL`."""
        self._left -= more
        if self._left < 0:
            what = f"the node lists of this machine have more than {self._most} names together"
            raise UsageError(f"{what} (accepted: at most {self._most})")


def fold(names: Iterable[str]) -> str:
    """Return names as a short host list. Consecutive names with the same stem share brackets, and the order is kept.

    >>> fold(["t1", "t2", "t3", "t9", "m1"]), fold(["n08", "n09", "n10", "n3"])
    ('t[1-3,9],m1', 'n[08-10],n3')
    """
    # For each group: the stem, the number of digits if the numbers begin with zeros (else 0), and spans of numbers.
    stems: list[tuple[str, int, list[list[int]]]] = []
    for name in names:
        match = _NUMBERED.match(name)
        stem, digits = (match[1], match[2]) if match else (name, "")
        padded = len(digits) if digits.startswith("0") and len(digits) > 1 else 0
        last, width, _ = stems[-1] if stems else ("", 0, [])
        goes_on = digits and (len(digits) == width if width else not padded)
        if not stems or last != stem or not stems[-1][2] or not goes_on:
            stems.append((stem, padded, []))
        spans = stems[-1][2]
        if spans and spans[-1][1] == int(digits) - 1:
            spans[-1][1] = int(digits)
        elif digits:
            spans.append([int(digits), int(digits)])
    return ",".join(stem + _spans(spans, width) for stem, width, spans in stems)


def _spans(spans: list[list[int]], width: int) -> str:
    """Return spans of numbers in brackets, or a single number without brackets."""
    if not spans:
        return ""
    numbers = ([str(n).zfill(width) for n in span] for span in spans)
    text = ",".join(low if low == high else f"{low}-{high}" for low, high in numbers)
    return text if text.isdecimal() else f"[{text}]"


def _spans_of(inside: str, text: str) -> list[tuple[Sequence[int], int]]:
    """Return the numbers of each span in brackets, and the number of digits of the span's lowest number."""
    spans: list[tuple[Sequence[int], int]] = []
    for item in inside.split(","):
        if not (match := _SPAN.fullmatch(item)):
            raise UsageError(f"not a node list: {text[:80]!r} (accepted: t1,t2 or t[1-14,20])")
        spans.append((range(int(match[1]), int(match[2] or match[1]) + 1), len(match[1])))
    return spans


_GRES = re.compile(r"(?:gres[:/])?gpu(?::[A-Za-z_][\w.-]*)?(?::(\d{1,12}))?(?:\(.*\))?", re.IGNORECASE)


def parse_tres(text: str) -> dict[str, str]:
    """Return the amounts in a TRES string as texts by resource; empty for an unknown string.

    >>> parse_tres("cpu=4,mem=16G,gres/gpu:a100=2")
    {'cpu': '4', 'mem': '16G', 'gres/gpu:a100': '2'}
    """
    pairs = (item.partition("=") for item in text.split(",") if "=" in item)
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


def tres_gpus(text: str) -> float:
    """Return the number of GPUs in a TRES string: 0 if it names no GPUs, NaN if it is empty.

    >>> tres_gpus("cpu=4,gres/gpu=3,gres/gpu:a100=2"), tres_gpus("cpu=4"), tres_gpus("")
    (3.0, 0.0, nan)
    """
    # `gres/gpu` counts all GPUs; without it, typed entries (`gres/gpu:a100`) are added.
    amounts = parse_tres(text)
    if not amounts:
        return math.nan
    if "gres/gpu" in amounts:
        return amount(amounts["gres/gpu"])
    return sum((amount(v) for k, v in amounts.items() if k.startswith("gres/gpu:")), 0.0)


def gres_gpus(text: str) -> float:
    """Return the number of GPUs per node in a GRES string (ReqGRES); 0 if the string names no GPUs.

    >>> gres_gpus("gpu:a100:2,lustre"), gres_gpus("gpu"), gres_gpus("gres:gpu:4"), gres_gpus("")
    (2.0, 1.0, 4.0, 0.0)
    """
    matches = (_GRES.fullmatch(item.strip().removeprefix("PER_NODE:")) for item in re.split(r",(?![^(]*\))", text))
    return float(sum(int(match[1] or 1) for match in matches if match))


def amount(text: str, otherwise: float = math.nan) -> float:
    """Return a text as a number; `otherwise` if the text is not a number."""
    try:
        value = float(text)
    except ValueError:
        return otherwise
    return otherwise if math.isnan(value) else value


_TYPED = re.compile(r"gpu:([A-Za-z_][\w.-]*)", re.IGNORECASE)


def gpu_type(text: str) -> str:
    """Return the type of GPU in a TRES or GRES string; empty if the string names no type or several types.

    >>> gpu_type("cpu=4,gres/gpu:a100=2,gres/gpu=2"), gpu_type("gpu:v100:2(S:0)"), gpu_type("gres/gpu=2")
    ('a100', 'v100', '')
    """
    types = {match.lower() for match in _TYPED.findall(text)}
    return types.pop() if len(types) == 1 else ""


_AWAY = frozenset(
    {
        "DOWN", "ERROR", "UNKNOWN", "UNK", "FUTURE", "FUTR", "DRAIN", "DRAINED", "DRAINING", "DRNG", "FAIL", "FAILING",
        "FAILG", "INVAL", "INVALID", "INVALID_REG",
    }
)  # fmt: skip
"""States in which slurmctld starts no jobs on a node until an administrator or a new registration restores it."""
_MARKS = "*~#!%$@^-"
"""sinfo's suffixes of states: not responding (*), powered down (~), powering up (#), powering down (%), and others."""
_ASLEEP_MARKS = frozenset("~#!%")


def is_away(state: str) -> bool:
    """Whether a node cannot be used until it is restored: down, drained, failing, not registered or not responding.

    >>> is_away("IDLE+CLOUD+POWERED_DOWN"), is_away("DOWN+CLOUD+POWERED_DOWN+NOT_RESPONDING"), is_away("IDLE+DRAIN")
    (False, True, True)
    >>> is_away("IDLE+NOT_RESPONDING"), is_away("allocated#"), is_away("idle*"), is_away("IDLE+MAINTENANCE+RESERVED")
    (True, False, True, False)
    """
    # A node that saves power (POWERED_DOWN, POWERING_DOWN, POWER_DOWN, POWERING_UP) can be used: slurmctld places jobs
    # on it and powers it up. A node that powers up does not respond; this does not count as a failure. MAINTENANCE is a
    # reservation, which the description of the machine lists separately.
    words, marks = set(), set()
    for word in state.upper().split("+"):
        bare = word.strip().rstrip(_MARKS)
        words.add(bare)
        marks |= set(word.strip()[len(bare) :])
    if words & _AWAY:
        return True
    silent = "*" in marks or "NOT_RESPONDING" in words or "NO_RESPOND" in words
    coming = marks & _ASLEEP_MARKS or any(word.startswith(("POWER", "REBOOT_ISSUED")) for word in words)
    return silent and not coming
