"""Schedule quality: waits, bounded slowdowns, utilization; pure functions on arrays of one length."""

from __future__ import annotations

import numpy as np

TAU = 10.0


def bounded_slowdown(wait: np.ndarray, run: np.ndarray, tau: float = TAU) -> np.ndarray:
    """max(1, (wait + run)/max(run, tau)) per job, seconds in (n,), at least 1 out. Feitelson & Rudolph (JSSPP 1998).

    >>> bounded_slowdown(np.array([90.0, 0.0]), np.array([1.0, 50.0])).tolist()
    [9.1, 1.0]
    """
    return np.asarray(np.maximum(1.0, (wait + run) / np.maximum(run, tau)))


def per_processor_bounded_slowdown(
    wait: np.ndarray, run: np.ndarray, procs: np.ndarray, tau: float = TAU
) -> np.ndarray:
    """max(1, (wait + run)/(procs*max(run, tau))) per job. Zotkin & Keleher (HPDC 1999)."""
    return np.asarray(np.maximum(1.0, (wait + run) / (procs * np.maximum(run, tau))))


def measures(
    submit: np.ndarray,
    start: np.ndarray,
    run: np.ndarray,
    procs: np.ndarray,
    total: float,
    backfilled: np.ndarray | None = None,
    tau: float = TAU,
) -> dict[str, float]:
    """The measures of one schedule by their printed names; times in seconds, shares as fractions; NaN without jobs.

    Makespan: first submit to last end. Utilization: sum(procs*run)/(total*makespan). Percentiles interpolate linearly.
    O(n log n).
    """
    wait, end = start - submit, start + run
    n = len(submit)
    if n == 0:
        return {"jobs": 0, **{name: float("nan") for name in _NAMES}}
    slowdown = bounded_slowdown(wait, run, tau)
    makespan = float(end.max() - submit.min())
    median, p95, p99 = np.percentile(wait, [50, 95, 99]).tolist()
    return {
        "jobs": n,
        "mean_wait_s": float(wait.mean()),
        "median_wait_s": median,
        "p95_wait_s": p95,
        "p99_wait_s": p99,
        "max_wait_s": float(wait.max()),
        "mean_bounded_slowdown": float(slowdown.mean()),
        "median_bounded_slowdown": float(np.median(slowdown)),
        "mean_per_processor_bounded_slowdown": float(per_processor_bounded_slowdown(wait, run, procs, tau).mean()),
        "utilization": float((procs * run).sum() / (total * makespan)) if makespan > 0 else float("nan"),
        "makespan_s": makespan,
        "backfilled_share": float("nan") if backfilled is None else float(np.mean(backfilled)),
    }


_NAMES = (
    "mean_wait_s",
    "median_wait_s",
    "p95_wait_s",
    "p99_wait_s",
    "max_wait_s",
    "mean_bounded_slowdown",
    "median_bounded_slowdown",
    "mean_per_processor_bounded_slowdown",
    "utilization",
    "makespan_s",
    "backfilled_share",
)
