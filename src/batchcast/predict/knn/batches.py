"""HistSet, TrainingSet, TestSet: windows of log order that move on by one TestSet (Xu et al. 2018, section 2.3)."""

from __future__ import annotations

import math
from typing import NamedTuple


class _Sizes(NamedTuple):
    h: int
    t1: int
    t2: int


class Batches(_Sizes):
    """Windows of h, t1 and t2 submissions; batch b begins at submission b * t2 (numbered from 0).

    >>> windows = Batches(3000, 1500, 1000)
    >>> windows.due(4499), windows.due(4500), windows.due(6700), windows.history(1), windows.training(1)
    (-1, 0, 2, (1000, 4000), (4000, 5500))
    """

    __slots__ = ()

    def __new__(cls, h: int, t1: int, t2: int) -> Batches:
        """ValueError unless every window holds a job."""
        if min(h, t1, t2) < 1:
            raise ValueError("h, t1 and t2 are at least 1 job")
        return super().__new__(cls, h, t1, t2)

    @property
    def cadence(self) -> int:
        """Every so many submissions a clock has to ask, so that no batch begins late."""
        return math.gcd(self.h + self.t1, self.t2)

    @property
    def untrained(self) -> int:
        """How many jobs are predicted before the first batch is trained."""
        return self.h + self.t1

    def due(self, submitted: int) -> int:
        """The batch whose TestSet the next submission belongs to; negative before the first."""
        return max((submitted - self.h - self.t1) // self.t2, -1)

    def history(self, batch: int) -> tuple[int, int]:
        """First and one-past-last submission of the HistSet."""
        return batch * self.t2, batch * self.t2 + self.h

    def training(self, batch: int) -> tuple[int, int]:
        """First and one-past-last submission of the TrainingSet."""
        return batch * self.t2 + self.h, batch * self.t2 + self.h + self.t1
