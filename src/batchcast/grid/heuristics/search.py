"""`search`: iterated moves and swaps on the fullest resources, from the best heuristic and from resource prices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..protocol import Batch, Plan, makespan


class Search:
    """A small makespan by local search: moves and swaps off the fullest resource, seeded kicks, best of two starts.

    Beyond the papers, after the moves of Braun et al. 2001 and Xhafa 2007: starts are the best of min_min, sufferage
    and mct, and each job where price times time is least, for the prices of the linear relaxation's dual, which
    also give a lower bound (`bound`) and tell which exchanges are cheap. `kicks` bounds the work: the same batch and
    `seed` give the same plan. Anytime: `stop` (a callable, asked every 50 kicks) ends it with the best so far.
    Without deadlines; jobs no resource can hold stay unplaced. O(kicks) descents.

    >>> times = np.array([[2.0, 3.0], [2.0, 3.0], [4.0, 2.0]])
    >>> makespan(Batch.of_times(times), Search().assign(Batch.of_times(times)))
    4.0
    """

    deadlines = False

    def __init__(self, seed: int = 1, kicks: int = 2000, near: int = 4, slack: float = 0.0005) -> None:
        if kicks < 0 or near < 1:
            raise ValueError("kicks is at least 0, near at least 1")
        self.seed, self.kicks, self.near, self.slack = seed, kicks, near, slack
        self.stop: Callable[[], bool] = lambda: False

    def assign(self, batch: Batch) -> Plan:
        """The plan for the jobs waiting now."""
        return self.solve(batch)[0]

    def solve(self, batch: Batch) -> tuple[Plan, float]:
        """The plan and the lower bound on any plan's makespan (of the linear relaxation)."""
        from ..balance import kicked, prices

        rows = np.flatnonzero(np.isfinite(batch.times).any(axis=1))
        times = np.ascontiguousarray(batch.times[rows])
        if not len(rows):
            return Plan(rows, np.full(len(batch.times), -1)), float("nan")
        bound, price = prices(times, batch.free, 2000 if times.size < 1_000_000 else 50)
        order = np.argsort(price * times, axis=1, kind="stable")
        near = np.ascontiguousarray(order[:, : self.near])
        rng = np.random.default_rng(self.seed)
        best, where = np.inf, near[:, 0]
        for start in (near[:, 0], self._greedy(batch, rows)):
            value, found = kicked(times, batch.free, start, price, near, 0, 3, 0.0, bound, rng)
            if value < best:
                best, where = value, found
        left = self.kicks
        current = where
        while left > 0 and best > bound * (1 + 1e-9) and not self.stop():
            value, current = kicked(times, batch.free, current, price, near, min(left, 50), 3, self.slack, bound, rng)
            left -= 50
            if value < best:
                best, where = value, current
        resource = np.full(len(batch.times), -1)
        resource[rows] = where
        return Plan(rows, resource), bound

    @staticmethod
    def _greedy(batch: Batch, rows: np.ndarray) -> np.ndarray:
        from .mct import Mct
        from .min_min import MinMin
        from .sufferage import Sufferage

        makers = (MinMin, Sufferage, Mct) if len(rows) <= 20_000 else (MinMin, Mct)
        plans = [maker().assign(batch) for maker in makers]
        return min(plans, key=lambda plan: makespan(batch, plan)).resource[rows]
