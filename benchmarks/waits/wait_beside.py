# SPDX-License-Identifier: Apache-2.0
"""Judges `report`'s statement about the effect of a smaller request on the wait, on later days.

    python -m benchmarks.waits.wait_beside LOG...

Kinds are a user's jobs of one size (and name, if there is one) with 20 jobs and more. The first 60 % of the days give
each kind's suggested limit and the waits of jobs beside it; the other days show whether the statement was right.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

from batchcast.metrics.smaller_requests import Axis, Waited, compare_smaller_requests
from batchcast.predict.recommend import recommend_limit
from batchcast.service.answers.advice import RISK
from batchcast.service.answers.track_record import median
from batchcast.service.answers.usage import LEAST_WASTE
from batchcast.trace.read import read_trace

LEAST, EARLY = 20, 0.6


def kinds_of(log: Any) -> tuple[list[Waited], dict[Any, list[int]]]:
    """Every job, and the rows of similar jobs."""
    numbers = [values.tolist() for values in (log.submit_time, log.wait_time, log.req_time, log.procs())]
    names = [log[name] if name in log.names else [""] * len(log) for name in ("user_id", "queue_id", "job_name")]
    jobs, kinds = [], defaultdict(list)
    for k, (submit, wait, limit, procs) in enumerate(zip(*numbers)):
        user, queue, name = (str(column[k]) for column in names)
        jobs.append(Waited(submit, queue, wait, (limit, procs, float("nan"))))
        kinds[user, name, procs].append(k)
    return jobs, kinds


def judged(log: Any) -> dict[str, Any]:
    """Print how many kinds get a shorter suggested limit, for how many the record allows a statement, and whether it
    was right."""
    jobs, kinds = kinds_of(log)
    runs = log.number("run_time").tolist()
    until = float(np.quantile([job.submit for job in jobs], EARLY))
    early = [job for job in jobs if job.submit < until and job.wait == job.wait]
    late = [job for job in jobs if job.submit >= until and job.wait == job.wait]
    found: dict[str, Any] = {"jobs": len(jobs), "kinds": 0, "advised": 0, "told": 0, "less": 0}
    found |= {"both": 0, "same_side": 0, "seconds": []}
    for places in kinds.values():
        before = [
            k
            for k in places
            if jobs[k].submit < until and np.isfinite([jobs[k].wait, runs[k], jobs[k].request[0]]).all()
        ]
        if len(before) < LEAST:
            continue
        found["kinds"] += 1
        best = recommend_limit([runs[k] for k in before], [False] * len(before), RISK, floor=300, step=300).limit_s
        if not median(jobs[k].request[0] for k in before) >= LEAST_WASTE * best:
            continue
        found["advised"] += 1
        begun = time.process_time()
        told = compare_smaller_requests([jobs[k] for k in before], early, Axis.LIMIT, best)
        found["seconds"].append(time.process_time() - begun)
        if told is None:
            continue
        found["told"] += 1
        found["less"] += told.less_s > 0
        later = differences([jobs[k] for k in places if jobs[k].submit >= until], late, told.queue, best)
        if len(later) >= 3:
            found["both"] += 1
            found["same_side"] += (median(later) > 0) == (told.less_s > 0)
    return {**found, "seconds": max(found["seconds"], default=0.0)}


def differences(these: Iterable[Waited], others: Iterable[Waited], queue: str, advised: float) -> list[float]:
    """Return a difference of waits for each day: how much shorter the jobs waited that requested between half of
    `advised` and `advised`. The jobs and days are chosen as in `compare_smaller_requests`."""
    days: dict[float, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    kept = [job for job in these if job.queue == queue and job.request[0] > advised]
    usual = median(job.request[1] for job in kept)
    for job in kept:
        days[job.submit // 86400.0][0].append(job.wait)
    for job in others:
        alike = usual / 2 <= job.request[1] <= usual * 2 and advised / 2 <= job.request[0] <= advised
        if job.queue == queue and alike:
            days[job.submit // 86400.0][1].append(job.wait)
    return [median(a) - median(b) for a, b in days.values() if a and b]


if __name__ == "__main__":
    for path in sys.argv[1:]:
        print(path.rpartition("/")[2], json.dumps(judged(read_trace(path))))
