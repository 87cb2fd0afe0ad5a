"""`exact`: the mixed-integer program of the makespan, with a bound that is told as it is."""

from __future__ import annotations

import numpy as np

from ...errors import UsageError
from ..protocol import Batch, Plan
from .search import Search

LARGEST = 60_000


class Exact:
    """The least makespan by branch and bound (SciPy's HiGHS) within `seconds`, and the bound that was proved.

    min T, sum_r x_ir = 1, free_r + sum_i t_ir x_ir <= T, x binary. `search` first gives an incumbent U and the
    prices of the relaxation a bound B; a column whose reduced cost exceeds U - B cannot be part of anything better than
    U, so leaving it out costs nothing and the bound stays a bound for the whole problem. What the solver finds is
    polished by the same moves as `search`. `columns` caps a job's resources at its cheapest; where that cap bites
    below what U - B allows, the solver's bound no longer covers the whole problem and B is reported instead. Up to
    60,000 columns, 512 x 16 being 8,192. Without deadlines. Deterministic apart from where the time limit cuts.

    >>> times = np.array([[2.0, 3.0], [2.0, 3.0], [4.0, 2.0]])
    >>> plan, bound = Exact(seconds=5).solve(Batch.of_times(times))
    >>> round(bound, 6)
    4.0
    """

    deadlines = False
    slow = True

    def __init__(self, seconds: float = 55.0, seed: int = 1, columns: int = 8, kicks: int = 10_000) -> None:
        if not seconds > 0 or columns < 1:
            raise ValueError("seconds is above 0, columns at least 1")
        self.seconds, self.seed, self.columns, self.kicks = seconds, seed, columns, kicks

    def assign(self, batch: Batch) -> Plan:
        """The plan for the jobs waiting now."""
        return self.solve(batch)[0]

    def solve(self, batch: Batch) -> tuple[Plan, float]:
        """The plan and the proved lower bound on any plan's makespan."""
        from ..balance import kicked, loads, prices

        search = Search(self.seed, self.kicks)
        plan, bound = search.solve(batch)
        rows = plan.order
        times = np.ascontiguousarray(batch.times[rows])
        if not len(rows):
            return plan, bound
        if times.size > LARGEST:
            raise UsageError(f"exact takes up to {LARGEST} job-resource pairs, not {times.size}", hint="search")
        where = plan.resource[rows]
        value = float(loads(times, batch.free, where).max())
        if value <= bound * (1 + 1e-9):
            return plan, bound
        price = prices(times, batch.free, 5000)[1]
        dear = price * times
        dear = dear - dear.min(axis=1, keepdims=True)
        keep = dear <= value - bound
        cheap = np.argsort(np.argsort(dear, axis=1, kind="stable"), axis=1) < self.columns
        whole = bool((keep <= cheap).all())
        keep &= cheap
        found, proved = _branch_and_bound(times, batch.free, keep, value, self.seconds)
        if found is not None:
            near = np.ascontiguousarray(np.argsort(price * times, axis=1, kind="stable")[:, :4])
            better, polished = kicked(
                times, batch.free, found, price, near, 0, 3, 0.0, bound, np.random.default_rng(self.seed)
            )
            if better < value:
                value, where = better, polished
        resource = np.full(len(batch.times), -1)
        resource[rows] = where
        return Plan(rows, resource), max(bound, min(proved, value)) if whole else bound


def _branch_and_bound(
    times: np.ndarray, free: np.ndarray, keep: np.ndarray, incumbent: float, seconds: float
) -> tuple[np.ndarray | None, float]:
    """Each job's resource (None: nothing below the incumbent was found) and the proved bound over the kept columns."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    n, m = times.shape
    i, r = np.nonzero(keep)
    k = len(i)
    each = csr_array((np.ones(k), (i, np.arange(k))), shape=(n, k + 1))
    scale = incumbent
    loads = csr_array(
        (
            np.concatenate([times[i, r], np.full(m, -scale)]),
            (np.concatenate([r, np.arange(m)]), np.concatenate([np.arange(k), np.full(m, k)])),
        ),
        shape=(m, k + 1),
    )
    cost = np.zeros(k + 1)
    cost[k] = 1.0
    answer = milp(
        cost,
        integrality=np.concatenate([np.ones(k), [0]]),
        bounds=Bounds(np.zeros(k + 1), np.concatenate([np.ones(k), [1.0]])),
        constraints=[LinearConstraint(each, 1, 1), LinearConstraint(loads / scale, -np.inf, -free / scale)],
        options={"time_limit": seconds, "mip_rel_gap": 1e-5},
    )
    if answer.x is None:  # infeasible below the incumbent means the incumbent is best; out of time proves nothing
        return None, incumbent if answer.status == 2 else -np.inf
    where = np.full(n, -1)
    chosen = answer.x[:k] > 0.5
    where[i[chosen]] = r[chosen]
    bound = answer.mip_dual_bound
    return where, -np.inf if bound is None else float(bound) * scale
