"""Events of the clock by time, on a heap."""

from __future__ import annotations

from ...compiled import inner
from .arrays import HEAP, State

END, CANCEL, RELEASE, BEGIN, FIXED, NODE, LEAVE = range(7)


@inner
def push(s: State, time: float, kind: int, item: int) -> None:
    """Put an event on the heap."""
    k = int(s.reg[HEAP])
    s.reg[HEAP] += 1
    while k > 0 and s.heap[(k - 1) >> 1].time > time:
        up = (k - 1) >> 1
        s.heap[k].time, s.heap[k].kind, s.heap[k].what = s.heap[up].time, s.heap[up].kind, s.heap[up].what
        k = up
    s.heap[k].time, s.heap[k].kind, s.heap[k].what = time, kind, item


@inner
def pop(s: State) -> None:
    """Drop the earliest event."""
    s.reg[HEAP] -= 1
    n = int(s.reg[HEAP])
    time, kind, item, k = s.heap[n].time, s.heap[n].kind, s.heap[n].what, 0
    while 2 * k + 1 < n:
        down = 2 * k + 1
        if down + 1 < n and s.heap[down + 1].time < s.heap[down].time:
            down += 1
        if s.heap[down].time >= time:
            break
        s.heap[k].time, s.heap[k].kind, s.heap[k].what = s.heap[down].time, s.heap[down].kind, s.heap[down].what
        k = down
    s.heap[k].time, s.heap[k].kind, s.heap[k].what = time, kind, item
