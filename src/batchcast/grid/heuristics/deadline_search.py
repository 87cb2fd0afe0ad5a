"""`deadline_search`: local search on the waiting jobs for more in time and sooner."""

from __future__ import annotations

import numpy as np

from ..protocol import Batch, Plan


class DeadlineSearch:
    """Descent from `emin_min`'s plan: moves, swaps and exchanges of jobs between queues; late starts are left open.

    Beyond the paper. Minimises the sum of completions of the placed jobs less `worth` for each, so more jobs
    in time come first and the mean response second; no placed job ends late. What need not start before the next
    mapping event stays waiting and is decided afresh there, so a pressing newcomer can still overtake. `steps` bounds
    the work at a mapping event in looked-at queue entries (a few ns each), whatever the clock says: the same batch gives
    the same plan. `worth` is in multiples of the longest finite expected time.

    >>> DeadlineSearch().assign(Batch.of_times(np.array([[2.0, 3.0], [4.0, 9.0]]), deadline=np.array([9.0, 9.0]))).resource
    array([1, 0])
    """

    deadlines = True

    def __init__(self, worth: float = 10.0, reserve: float = 0.0, steps: int = 1_000_000) -> None:
        if not worth > 0 or steps < 0:
            raise ValueError("worth is above 0 and steps at least 0")
        self.worth, self.reserve, self.steps = worth, reserve, steps

    def assign(self, batch: Batch) -> Plan:
        """The plan for the jobs waiting now; later starts than `batch.until` are left waiting."""
        from ..kernels import pairs, resource_orders
        from ..queues import as_plan, improve_queues

        times = batch.times
        finite = times[np.isfinite(times)]
        if not len(finite):
            return Plan(np.empty(0, dtype=np.int64), np.full(len(times), -1))
        orders = resource_orders(times)
        start = pairs(times, batch.free, batch.deadline, orders, orders, False, 0.0)
        unit = float(times.min(axis=1)[np.isfinite(times).any(axis=1)].mean())
        worth = np.full(len(times), self.worth * unit)
        faster = np.nanmean(times.mean(axis=1)[:,None]/times,axis=0)
        price = self.reserve * np.maximum(faster - 1.0, 0.0)
        queue, length, _ = improve_queues(*start, times, batch.free, batch.deadline, worth+batch.now, price, self.steps)
        return Plan(*as_plan(queue, length, times, batch.free, batch.until, batch.now))
