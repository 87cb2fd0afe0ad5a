# SPDX-License-Identifier: Apache-2.0
"""Small synthetic logs for the checks, with properties of real logs: repeated work, irregular records, missing
values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..table import Trace

TIMES = ("job_id", "submit_time", "wait_time", "run_time")
NOMINALS = ("user_id", "group_id", "app_id", "queue_id", "partition_id", "account", "qos", "job_name")


def small_log(jobs: int = 160, seed: int = 0) -> Trace:
    """Generate a log of users who repeat their work.

    The log has jobs with a run time of 0, jobs that never ran, and several jobs submitted at one instant.

    Parameters
    ----------
    jobs
        Number of jobs in the log.
    seed
        Seed of the random numbers.

    Returns
    -------
    Trace

    Examples
    --------
    >>> len(small_log(50)), bool(np.isnan(small_log().run_time).any())
    (50, True)
    """
    rng = np.random.default_rng(seed)
    user = rng.integers(0, 5, jobs)
    app = user * 3 + rng.integers(0, 3, jobs)
    run = np.round(20.0 * (1 + app) * rng.lognormal(0.0, 0.4, jobs), 1)
    run[rng.random(jobs) < 0.05] = 0.0
    run[rng.random(jobs) < 0.05] = np.nan
    return Trace.from_arrays(
        {
            "submit_time": np.cumsum(rng.choice([0.0, 1.0, 30.0, 90.0], jobs)),
            "wait_time": rng.choice([0.0, 5.0, 200.0], jobs),
            "run_time": run,
            "req_procs": (2.0 ** rng.integers(0, 5, jobs)),
            "alloc_procs": (2.0 ** rng.integers(0, 5, jobs)),
            "req_time": rng.choice([600.0, 3600.0, np.inf, np.nan], jobs, p=[0.5, 0.4, 0.05, 0.05]),
            "req_mem_kib": rng.choice([1024.0, 4096.0, np.nan], jobs),
            "status": rng.integers(0, 2, jobs),
            "user_id": [f"user{u}" if u else None for u in user],
            "group_id": user % 2,
            "app_id": app,
            "queue_id": rng.integers(0, 2, jobs),
            "partition_id": rng.integers(0, 2, jobs),
            "job_name": [f"case_{a}" for a in app],
            "account": [f"project{u % 3}" for u in user],
            "req_gpus": rng.choice([0.0, 1.0, 4.0, np.nan], jobs),
            "work_dir": [f"/home/{u}" for u in user],
            # A user's log can contain outcomes in columns of other names, which predictors must not see.
            "elapsed": run,
            "outcome": [f"ran {r // 60}" for r in run],
        }
    )


def odd_logs() -> Mapping[str, Trace]:
    """Return irregular logs by a description of the irregularity. Predictors must return valid predictions for each
    log.

    Examples
    --------
    >>> len(odd_logs()["one job"])
    1
    """
    base = small_log(60, seed=1)
    n = len(base)

    def changed(**columns: Any) -> Trace:
        log = Trace.from_arrays({"submit_time": base.submit_time, **columns})
        return Trace({name: (log if name in columns else base).column(name) for name in base.names}, is_sorted=True)

    huge = np.where(np.arange(n) % 3 == 0, 1e300, 1.0)
    return {
        "one job": base.take(np.arange(1)),
        "no history: nothing ever ends": changed(run_time=np.full(n, np.nan)),
        "no queue: every job starts at once": changed(wait_time=np.zeros(n)),
        "all at one instant": changed(submit_time=np.zeros(n)),
        "one user": changed(user_id=["ada"] * n),
        "constant fields": changed(
            req_procs=np.full(n, 4.0), req_time=np.full(n, 600.0), **{name: ["x"] * n for name in NOMINALS}
        ),
        "constant run times": changed(run_time=np.full(n, 60.0)),
        "zero-length jobs": changed(run_time=np.zeros(n)),
        "missing fields": Trace({name: base.column(name) for name in TIMES}, is_sorted=True),
        "absurd values": changed(
            req_procs=huge, alloc_procs=huge, req_mem_kib=huge, req_time=np.where(huge > 1, 1e300, 1e-300)
        ),
        "absurd run times": changed(run_time=np.where(np.arange(n) % 3 == 0, 1e300, base.run_time)),
        "zero and negative requests": changed(
            req_procs=np.where(huge > 1, 0.0, -1.0), req_mem_kib=-huge, req_time=np.where(huge > 1, 0.0, -60.0)
        ),
        "long names, odd characters": changed(
            job_name=[("é|\"'\n" * (k % 40)) + "x" for k in range(n)], user_id=[f"u{k}\U0001f600" for k in range(n)]
        ),
    }
