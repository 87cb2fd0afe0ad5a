# SPDX-License-Identifier: Apache-2.0
"""Interpret a node's state as `scontrol show node`, `--json`, slurm.conf or sinfo print it."""

from __future__ import annotations

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

    Parameters
    ----------
    state
        The state, as Slurm prints it.

    Returns
    -------
    bool

    Notes
    -----
    A node that saves power (POWERED_DOWN, POWERING_DOWN, POWER_DOWN, POWERING_UP) can be used: slurmctld places jobs on
    it and powers it up. A node that powers up does not respond; this does not count as a failure. MAINTENANCE is a
    reservation, which the description of the machine lists separately.

    Examples
    --------
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
