"""The profile as an array of free processors per second: every question answered by looking at each second."""

from __future__ import annotations

import numpy as np


class NaiveProfile:
    """Free processors of each second from 0 to a horizon; afterwards all are free."""

    def __init__(self, total: int, horizon: int) -> None:
        self.free = np.full(horizon, total)
        self.now = 0

    def hold(self, start: int, end: int, procs: int) -> None:
        self.free[start:end] -= procs

    def fits(self, start: int, length: int, procs: int) -> bool:
        return bool((self.free[start : start + length] >= procs).all())

    def earliest_fit(self, procs: int, length: int) -> int:
        return next(t for t in range(self.now, len(self.free)) if self.fits(t, length, procs))

    def earlier_fit(self, procs: int, length: int, reserved: int) -> int:
        self.hold(reserved, reserved + length, -procs)
        start = self.earliest_fit(procs, length)
        self.hold(reserved, reserved + length, procs)
        return min(start, reserved)

    def most_free(self, since: int, until: int) -> int:
        return int(self.free[max(since, self.now) : until].max(initial=0))
