# SPDX-License-Identifier: Apache-2.0
"""A node's state in Slurm's words, as `scontrol show node`, `--json`, slurm.conf or sinfo print it. Pure."""

from __future__ import annotations

_AWAY = frozenset(
    {
        "DOWN", "ERROR", "UNKNOWN", "UNK", "FUTURE", "FUTR", "DRAIN", "DRAINED", "DRAINING", "DRNG", "FAIL", "FAILING",
        "FAILG", "INVAL", "INVALID", "INVALID_REG",
    }
)  # fmt: skip
"""Words of a node on which slurmctld starts nothing until somebody, or a new registration, brings it back."""
_MARKS = "*~#!%$@^-"
"""One of them follows a word: does not answer, asleep, wakes up, about to sleep, falls asleep, maintenance, ..."""
_ASLEEP_MARKS = frozenset("~#!%")


def is_away(state: str) -> bool:
    """Whether a node cannot be used until somebody brings it back: down, drained, failing, not registered, silent.

    A node that saves power (POWERED_DOWN, POWERING_DOWN, POWER_DOWN, POWERING_UP) is asleep, not away: slurmctld places
    jobs on it and wakes it up, and its silence meanwhile says nothing. MAINTENANCE is a reservation, which the
    description of the machine has by itself.

    >>> is_away("IDLE+CLOUD+POWERED_DOWN"), is_away("DOWN+CLOUD+POWERED_DOWN+NOT_RESPONDING"), is_away("IDLE+DRAIN")
    (False, True, True)
    >>> is_away("IDLE+NOT_RESPONDING"), is_away("allocated#"), is_away("idle*"), is_away("IDLE+MAINTENANCE+RESERVED")
    (True, False, True, False)
    """
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
