# SPDX-License-Identifier: Apache-2.0
"""Bounds predicted start times by the latest start that time limits imply, for waiting jobs and for new jobs.

The collector computes the latest start of every waiting job (`collector.latest_starts`) and stores it. No answer gives
a start later than the job's latest start plus a stated margin. `latest_start` returns the bound; `capped` applies it to
renewed predictions and to predictions for new jobs.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from ...predict.protocol import Prediction

Job = Mapping[str, Any]

MARGIN_SHARE, MARGIN_S = 0.5, 3600.0
"""A predicted wait exceeds the wait that limits imply by at most this share of that wait, plus this many seconds."""
OLD_S = 3600.0
"""Bounds that the collector computed longer ago than this are not used."""
CUT = "; at most 1.5 times the wait that Slurm's limits imply, plus 1 h"


def starts_in_order(
    holders: Iterable[tuple[float, float]], jobs: Iterable[tuple[float, float]], now: float
) -> Iterator[float]:
    """Yield when each job starts if jobs start in this order, each as soon as its amount (of processors, say) is free.

    `holders` are (end, amount) of running jobs, `jobs` are (length, amount) of waiting jobs; times are in seconds.
    O(log n) per job.

    >>> list(starts_in_order([(100.0, 1.0)], [(50.0, 1.0), (30.0, 1.0)], 0.0))
    [100.0, 150.0]
    """
    ends = list(holders)
    heapq.heapify(ends)
    free, at = 0.0, now
    for length, wanted in jobs:
        while free < wanted and ends:
            end, given_back = heapq.heappop(ends)
            free, at = free + given_back, max(at, end)
        free -= min(wanted, free)
        heapq.heappush(ends, (at + length, wanted))
        yield at


def queue_place(job: Job) -> tuple[float, float, int]:
    """Return the sort key of a waiting job in the queue order: by priority, then by submission."""
    priority = job.get("priority")
    return -float(priority) if priority is not None else 0.0, job["submit_time"], job["row"]


def time_limit(job: Job) -> float:
    """Return a job's time limit in seconds; infinity if it has none."""
    limit = job.get("req_time") if job.get("limit_now") is None else job["limit_now"]
    return math.inf if limit is None else float(limit)


def latest_start(row: Job, memory: Mapping[str, Any], now: float) -> float:
    """Return the latest start that an answer for this waiting job may give (epoch seconds); infinity if unknown.

    Two bounds on the start may be known: Slurm's own estimate, which uses time limits, and the start after all running
    jobs and all jobs in front have run to their limits (`collector.latest_starts`). The earlier bound is used. A job
    that is not submitted yet is last in the queue. The margin (`MARGIN_SHARE`, `MARGIN_S`) allows for jobs that arrive
    later but start earlier.

    >>> row = {"row": 7, "expected_start": 1000.0, "partition_id": "main", "req_procs": 1.0}
    >>> latest_start(row, {}, 0.0), latest_start({**row, "expected_start": None}, {}, 0.0)
    (5100.0, inf)
    >>> latest_start(row, {"latest": {"at": 0.0, "jobs": {"7": 600}, "new": {"main": [2000.0, 8.0]}}}, 0.0)
    4500.0
    """
    by = row.get("expected_start")
    by = math.inf if by is None or by <= now else float(by)
    known = memory.get("latest") or {}
    if known and now - known["at"] <= OLD_S:
        last, procs = known["new"].get(str(row["partition_id"] or ""), known["new"].get("", (math.inf, math.inf)))
        last = last if float(row.get("req_procs") or 1.0) <= procs else math.inf
        by = min(by, float(known["jobs"].get(str(row.get("row")), last)))
    return with_margin(by, now)


def with_margin(by: float, now: float) -> float:
    """Return the instant `by` plus the margin, which grows with the wait from `now` until `by`.

    >>> with_margin(1000.0, 0.0)
    5100.0
    """
    wait = max(by - now, 0.0)
    return now + wait + MARGIN_SHARE * wait + MARGIN_S


def capped(said: Prediction, wait_s: float) -> Prediction:
    """Limit a predicted wait to `wait_s` seconds. If the limit changes the prediction, the prediction's basis says so.

    >>> said = Prediction(50.0, (0.1, 0.9), (10.0, 900.0), "recent waits")
    >>> capped(said, 300.0).quantiles, capped(said, 300.0).basis == "recent waits" + CUT, capped(said, 900.0) is said
    ((10.0, 300.0), True, True)
    """
    if max((said.point, *said.quantiles)) <= wait_s:
        return said
    most = max(wait_s, 1.0)
    quantiles = tuple(min(one, most) for one in said.quantiles)
    return replace(said, point=min(said.point, most), quantiles=quantiles, basis=with_cut(said.basis))


def with_cut(basis: str) -> str:
    """Return the basis of an answer with a note that the answer was limited; the note is added only once."""
    return basis if basis.endswith(CUT) else f"{basis}{CUT}"
