# SPDX-License-Identifier: Apache-2.0
"""How a job ended, as one set of lower-case words, and how SWF's numbers and sacct's states map to them."""

from __future__ import annotations

import re

SWF_WORDS: dict[int, str] = {
    0: "failed",
    1: "completed",
    2: "partial",
    3: "partial_completed",
    4: "partial_failed",
    5: "cancelled",
}
"""SWF field 11 by number; 2, 3 and 4 are pieces of a job that was checkpointed; -1 is unknown."""

SWF_NUMBERS: dict[str, int] = {
    **{word: number for number, word in SWF_WORDS.items()},
    "timeout": 0,
    "node_fail": 0,
    "out_of_memory": 0,
    "boot_fail": 0,
    "deadline": 0,
    "launch_failed": 0,
    "reconfig_fail": 0,
    "preempted": 0,
    "requeued": 2,
    "revoked": 5,
}
"""The nearest SWF number of every word; a word that is not here (pending, running, ...) is unknown in SWF."""

_SHORT_STATES = {
    "bf": "boot_fail", "ca": "cancelled", "cd": "completed", "cf": "configuring", "cg": "completing", "dl": "deadline",
    "f": "failed", "nf": "node_fail", "oom": "out_of_memory", "pd": "pending", "pr": "preempted", "r": "running",
    "rq": "requeued", "rs": "resizing", "rv": "revoked", "s": "suspended", "to": "timeout",
}  # fmt: skip
_STATE = re.compile(r"[A-Za-z]+(?:_[A-Za-z]+)*")


def status_from_swf(number: int) -> str | None:
    """The word of an SWF status; None when unknown, `swf_N` for a number the format does not define.

    >>> status_from_swf(5), status_from_swf(-1), status_from_swf(9)
    ('cancelled', None, 'swf_9')
    """
    return None if number < 0 else SWF_WORDS.get(number, f"swf_{number}")


def status_to_swf(word: str | None) -> int:
    """The SWF number nearest to a word, -1 when there is none.

    >>> status_to_swf("timeout"), status_to_swf("swf_9"), status_to_swf(None)
    (0, 9, -1)
    """
    if word is not None and re.fullmatch(r"swf_\d+", word):
        return int(word[4:])
    return SWF_NUMBERS.get(word or "", -1)


def status_from_sacct(state: str) -> str | None:
    """The word of one of sacct's states, long or short form; what follows it (`CANCELLED by 1000`, `+`) is cut off.

    >>> status_from_sacct("CANCELLED by 1000"), status_from_sacct("OUT_OF_ME+"), status_from_sacct("TO")
    ('cancelled', 'out_of_memory', 'timeout')
    """
    match = _STATE.match(state.strip())
    if match is None:
        return None
    word = match[0].lower()
    if word in ("unknown", "none"):
        return None
    if state.strip()[match.end() : match.end() + 1] == "+":  # sacct cuts a state at its column's width
        return next((full for full in sorted(SWF_NUMBERS) if full.startswith(word)), word)
    return _SHORT_STATES.get(word, word)


def status_words(text: str) -> frozenset[str]:
    """The words a user means by one: itself, or for an SWF number every word that number covers.

    >>> sorted(status_words("1")), sorted(status_words("TIMEOUT"))
    (['completed'], ['timeout'])
    """
    word = text.strip().lower()
    if re.fullmatch(r"\d+", word):
        covered = {name for name, number in SWF_NUMBERS.items() if number == int(word)}
        return frozenset(covered or {f"swf_{word}"})
    return frozenset({status_from_sacct(word) or word})
