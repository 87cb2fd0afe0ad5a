"""Which finished jobs are a job's candidates."""

from __future__ import annotations

from ...compiled import inner
from .memory import CLASSES, REACH, STAMP, TOTAL, Memory


@inner
def choose(m: Memory, slot: int) -> None:
    """List an unfinished job's candidates: the last REACH finished of each of its classes when it was submitted.

    Each once, newest first within a class. A job may be asked about, and learned from when it ends, by one list.
    """
    length = len(m.finished)
    m.numbers[STAMP] += 1
    stamp, oldest = m.numbers[STAMP], max(m.numbers[TOTAL] - length, 0)
    round_began = oldest // length * length
    n = 0
    for kind in range(CLASSES):
        number, steps = m.heads[slot, kind], 0
        while number >= oldest and steps < REACH[kind]:
            place = number - round_began
            place -= length if place >= length else 0
            if m.finished[place].seen != stamp:
                m.finished[place].seen = stamp
                m.listed[slot, n], m.steps[slot, n] = number, steps
                n += 1
            number = m.before[place, kind]
            steps += 1
    m.unfinished[slot].count = n
