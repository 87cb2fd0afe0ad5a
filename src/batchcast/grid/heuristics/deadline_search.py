# SPDX-License-Identifier: Apache-2.0
"""`deadline_search`: local search on the waiting jobs for more in time, and sooner."""

from __future__ import annotations

import numpy as np

from ..protocol import Batch, Plan


class DeadlineSearch:
    """Descent from `emin_min`'s plan: moves, swaps and exchanges of jobs between queues; late starts are left open.

    Parameters
    ----------
    worth
        What a placed job is worth, in mean least times.
    reserve
        The price of a resource's time: so many times how much faster than the mean it runs these jobs, which keeps the
        fast ones for pressing newcomers.
    steps
        Queue entries looked at in a mapping event at most (a few ns each), whatever the clock says: the same batch
        gives the same plan.

    Raises
    ------
    ValueError
        For a number outside its range.

    Notes
    -----
    Beyond the paper. Minimises, over the placed jobs, the sum of completions less `worth` for each, plus the price of
    the time it takes; no placed job ends late. What need not start before the next mapping event stays waiting and is
    decided afresh there. Ties to what was found first.

    Examples
    --------
    >>> times = np.array([[2.0, 3.0], [4.0, 9.0]])
    >>> DeadlineSearch().assign(Batch.of_times(times, deadline=np.array([9.0, 9.0]))).resource
    array([1, 0])
    """

    deadlines = True

    def __init__(self, worth: float = 10.0, reserve: float = 0.6, steps: int = 1_000_000) -> None:
        if not worth > 0 or not reserve >= 0 or steps < 0:
            raise ValueError("worth is above 0, reserve and steps are at least 0")
        self.worth, self.reserve, self.steps = worth, reserve, steps

    def assign(self, batch: Batch) -> Plan:
        """The plan for the jobs waiting now; later starts than `batch.until` are left waiting."""
        from ..kernels import pairs, resource_orders
        from ..queues import as_plan, improve_queues

        times = batch.times
        finite = np.isfinite(times)
        if not finite.any():
            return Plan(np.empty(0, dtype=np.int64), np.full(len(times), -1))
        orders = resource_orders(times)
        start = pairs(times, batch.free, batch.deadline, orders, orders, False, 0.0)
        least = float(times.min(axis=1, where=finite, initial=np.inf)[finite.any(axis=1)].mean())
        worth = np.full(len(times), batch.now + self.worth * least)
        price = self.reserve * np.maximum(_faster(times, finite) - 1.0, 0.0)
        queue, length, _ = improve_queues(
            start[0], start[1], times, batch.free, batch.deadline, worth, price, self.steps
        )
        return Plan(*as_plan(queue, length, times, batch.free, batch.until, batch.now))


def _faster(times: np.ndarray, finite: np.ndarray) -> np.ndarray:
    """How many times faster than a job's mean resource each resource is, mean over the jobs it can hold, (m,)."""
    held = np.where(finite, times, 0.0)
    mean = held.sum(axis=1) / np.maximum(finite.sum(axis=1), 1)
    ratio = np.where(finite & (times > 0), mean[:, None] / np.where(times > 0, times, 1.0), 0.0)
    return np.asarray(ratio.sum(axis=0) / np.maximum(finite.sum(axis=0), 1))
