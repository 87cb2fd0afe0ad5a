# SPDX-License-Identifier: Apache-2.0
"""Which limits, and how much memory, to ask for: what advice would have cost a log, as rows and pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from .. import plots
from ..evaluation import memory_limits as memory
from ..evaluation.limits import KILLED, MEAN_UNUSED, Limits, advice_words, find_limits, limit_rows
from ..evaluation.memory_limits import MemoryLimits
from ..evaluation.replay import check_log
from ..table import Trace
from ..table.result import Picture, Rows


@dataclass(frozen=True, slots=True, repr=False)
class LimitAdvice(Rows):
    """A row a rule (advice, the usual rule, the users' own): what it kills and what it leaves unused.

    `words` says it in a sentence; `found.limits` has the limit (n,) of every job under each rule.
    """

    found: Limits | MemoryLimits
    words: str
    cost: str
    killed: str

    def __repr__(self) -> str:
        return f"<LimitAdvice for {int(self.found.scored.sum())} jobs: {', '.join(self.found.limits)}>"

    def _pictures(self) -> Mapping[str, Picture]:
        whole = [row for row in self.rows if "by" not in row]
        unit = "core-hours unused a job" if self.cost == MEAN_UNUSED else "GiB-hours held a job"
        points = {str(row["limits"]): (float(row[self.cost]), float(row[self.killed])) for row in whole}
        return {
            "tradeoff": partial(plots.tradeoff, points, unit, "cut off, of 1,000 jobs"),
            "differences": partial(plots.differences, whole, self.cost, ("limits",)),
        }


def limits(
    trace: Trace, *, risk: float = 0.05, floor: float = 300.0, step: float = 300.0, by: str | None = None,
    procs: str = "req",
) -> LimitAdvice:  # fmt: skip
    """The shortest time limits whose risk of a kill is the one given, and what they would have cost the log.

    Parameters
    ----------
    trace
        The log.
    risk
        The share of jobs that may be cut off.
    floor, step
        The least that is advised, and what it is a multiple of, seconds.
    by
        Rows by `user`, `account`, `queue` or `application` as well.
    procs
        A job's processors: `req` (requested, else allocated) or `alloc`.

    Returns
    -------
    LimitAdvice
        `rows`, `words`, `plot()` (`tradeoff`, `differences`), frames.

    Raises
    ------
    NoAnswer
        Where no job that ran had a limit.

    Examples
    --------
    >>> import batchcast
    >>> found = limits(batchcast.read_trace(batchcast.demo_path())[:2000])
    >>> found.to_polars()["limits"].to_list(), found.plot().get_ylabel()
    (['advice', 'rule_of_thumb', 'own'], 'cut off, of 1,000 jobs')
    """
    check_log(trace)
    found = find_limits(trace, risk=risk, floor=floor, step=step, procs=procs)
    rows = limit_rows(found)
    words = advice_words(rows, risk)
    return LimitAdvice([*rows, *(limit_rows(found, by) if by else [])], found, words, MEAN_UNUSED, KILLED)


def memory_limits(
    trace: Trace, *, risk: float = 0.05, floor: float = 64.0, step: float = 64.0, most: float = math.inf,
    by: str | None = None, procs: str = "req",
) -> LimitAdvice:  # fmt: skip
    """The same for memory: requests of a given risk and of least waste, second attempts counted in full.

    Parameters
    ----------
    trace
        The log, with measured peaks.
    risk
        The share of jobs that may run out of memory.
    floor, step, most
        The least that is advised, what it is a multiple of, and what a node has, MiB.
    by
        Rows by `user`, `account`, `queue` or `application` as well.
    procs
        A job's processors: `req` (requested, else allocated) or `alloc`.

    Returns
    -------
    LimitAdvice
        `rows`, `words`, `plot()` (`tradeoff`, `differences`), frames.

    Raises
    ------
    NoAnswer
        Where the log has no measured peak.

    Examples
    --------
    >>> from batchcast import Trace
    >>> log = Trace.from_arrays({
    ...     "submit_time": [100.0 * k for k in range(30)], "wait_time": [0.0] * 30, "run_time": [50.0] * 30,
    ...     "req_procs": [1] * 30, "user_id": ["ada"] * 30, "req_mem_kib": [2**20] * 30, "used_mem_kib": [2**18] * 30})
    >>> found = memory_limits(log)
    >>> found.to_polars()["limits"].to_list()
    ['advice', 'least_waste', 'rule_of_thumb', 'own']
    """
    check_log(trace)
    found = memory.find_memory_limits(trace, risk=risk, floor=floor, step=step, most=most, procs=procs)
    rows = memory.memory_limit_rows(found)
    words = memory.memory_words(rows, risk, most)
    grouped = memory.memory_limit_rows(found, by) if by else []
    return LimitAdvice([*rows, *grouped], found, words, memory.SPENT, memory.RAN_OUT)
