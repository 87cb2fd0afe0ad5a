"""RLScheduler's published windows: `python -m benchmarks.policy.published_windows LOG...`.

RLScheduler (Zhang et al., SC 2020) compares a learned scheduler with four queue orders on ten windows of 1,024 jobs of
SDSC-SP2 and of HPC2N. The windows begin at places that its seed 1 draws from the first 10,000 jobs, so they overlap.
This program

1. repeats its simulator on these windows, and prints the result beside the published figures;
2. runs our policies and the same orders in our simulator on the same windows, and on windows that do not overlap: mean
   bounded slowdown, and the paired difference from EASY with a 90 % interval over windows;
3. prints which part of a mean and of a difference a single window decides.

Two properties of RLScheduler's code are repeated, because its figures follow from them. A job without a run time, which
was cancelled while it waited, runs for 10 s; its time limit, if the log has none, is -1 s. WFP3 and UNICEP subtract the
submission from a start time that is still -1 while a job waits. `--disjoint N` sets the number of windows that do not
overlap, spread over the log.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from batchcast.events.recorded import replay
from batchcast.metrics.paired import paired_differences
from batchcast.metrics.schedule import bounded_slowdown
from batchcast.predict.runtime.kernel import Kernel
from batchcast.simulation import Policy, simulate
from batchcast.table import Trace
from batchcast.trace import read_trace

JOBS, WINDOWS, SEED, FIRST = 1024, 10, 1, 10_000
HISTORY = 4096
"""Jobs before a window from which `forecast` may learn, as far as they ended before the window begins."""
PUBLISHED = {
    "SDSC-SP2": {
        "fcfs": (1727.54, 1595.12), "sjf": (2680.55, 2167.84), "f1": (1232.06, 1098.22), "wfp3": (3000.88, 1083.12),
        "unicep": (1848.45, 548.01), "RLScheduler": (466.44, 397.82),
    },
    "HPC2N": {
        "fcfs": (297.18, 127.38), "sjf": (157.71, 122.04), "f1": (118.01, 71.95), "wfp3": (426.99, 97.39),
        "unicep": (609.77, 175.12), "RLScheduler": (117.01, 86.14),
    },
}  # fmt: skip
"""Mean bounded slowdown without and with backfilling, from the README of DIR-LAB/deep-batch-scheduler."""


ORDERS = ("fcfs", "sjf", "f1", "wfp3", "unicep")
MODES = ("plain", "backfilling")


class Job(NamedTuple):
    """A job as RLScheduler reads it, in whole seconds."""

    submit: float
    run: float
    procs: float
    limit: float
    never_ran: bool


def starts(jobs: int, windows: int = WINDOWS, seed: int = SEED, first: int = FIRST) -> list[int]:
    """Return where the windows begin: gym's generator of that seed, drawn as RLScheduler's test draws.

    gym seeds NumPy's old generator with the first eight bytes of the SHA-512 of the seed's digits.

    >>> starts(59_705)[:3]
    [1981, 2756, 4299]
    """
    number = int.from_bytes(hashlib.sha512(str(seed).encode()).digest()[:8], "little")
    random = np.random.RandomState([number % 2**32, number // 2**32])
    return [int(random.randint(JOBS, min(jobs, first) - JOBS - 1)) for _ in range(windows)]


def read_log(path: str) -> Trace:
    """Return the jobs that RLScheduler reads: as wide as allocated or requested, 10 s long if they have no run time."""
    trace = read_trace(path)
    trace = trace[trace.run_time != 0]
    run, limit = trace.run_time, trace.req_time
    wide = np.fmax(trace.number("alloc_procs"), trace.number("req_procs"))
    never_ran = np.isnan(run)
    run = np.where(never_ran, 10.0, run)
    columns = {"run_time": run, "req_time": np.where(np.isnan(limit), run, limit), "never_ran": never_ran.astype(float)}
    columns["read_limit"] = np.where(never_ran & np.isnan(limit), -1.0, columns["req_time"])
    return trace.with_columns({**columns, "req_procs": wide, "alloc_procs": wide})


def jobs_of(trace: Trace) -> list[Job]:
    """Return the jobs of a log that `read_log` has read, as RLScheduler's simulator takes them."""
    names = ("submit_time", "run_time", "req_procs", "read_limit", "never_ran")
    columns = [trace.number(name).tolist() for name in names]
    return [Job(*row[:4], bool(row[4])) for row in zip(*columns, strict=True)]


def published_rule(name: str) -> Callable[[Job], Any]:
    """Return the key of an order as published; the smallest goes first."""

    def unicep(job: Job) -> float:
        return -(-1 - job.submit + 1e-15) / (math.log2(job.procs + 1e-15) * job.limit)

    return {
        "fcfs": lambda job: job.submit,
        "sjf": lambda job: (job.limit, job.submit),
        "f1": lambda job: math.log10(max(job.limit, 0.1)) * job.procs + 870 * math.log10(job.submit or 0.1),
        "wfp3": lambda job: -(((-1 - job.submit) / job.limit) ** 3) * job.procs,
        "unicep": unicep,
    }[name]


def published_schedule(
    jobs: Sequence[Job], total: float, key: Callable[[Job], Any], backfill: bool
) -> tuple[float, float]:
    """Return the mean bounded slowdown by RLScheduler's simulator, and the part of it from jobs that never ran.

    It takes the first job of the order and keeps this choice until the job fits, also if a better job arrives. Other
    jobs are backfilled, by arrival, only if they end by their limits before the chosen job's estimated start.
    """
    now, free, arrived, queue = jobs[0].submit, total, 1, [jobs[0]]
    running: list[tuple[float, Job, float]] = []
    sums = [0.0, 0.0]

    def start(job: Job) -> None:
        nonlocal free
        queue.remove(job)
        free -= job.procs
        running.append((now + job.run, job, now + job.limit))
        sums[job.never_ran] += max((now - job.submit + job.run) / max(job.run, 10.0), 1.0)

    def step() -> None:
        """Go to the next arrival or end."""
        nonlocal now, free, arrived
        running.sort(key=lambda one: one[0])
        if arrived < len(jobs) and (not running or jobs[arrived].submit <= running[0][0]):
            now = max(now, jobs[arrived].submit)
            queue.append(jobs[arrived])
            arrived += 1
        else:
            end, job, _ = running.pop(0)
            now, free = max(now, end), free + job.procs

    def fills(head: Job) -> Iterator[Job]:
        """Yield the jobs that fit before the head's estimated start, until the head itself fits."""
        room, estimate = free, now
        for _, job, planned in sorted(running, key=lambda one: one[2]):
            room, estimate = room + job.procs, planned
            if room >= head.procs:
                break
        while free < head.procs:
            for job in sorted(queue, key=lambda job: job.submit) if backfill else ():
                if now + job.limit < estimate and free >= job.procs:
                    yield job
            step()

    while queue:
        head = min(queue, key=key)
        for job in fills(head):
            start(job)
        start(head)
        while not queue and arrived < len(jobs):
            step()
    return sum(sums) / len(jobs), sums[1] / len(jobs)


def f1(now: float, submit: float, procs: float, planned: float, wait: float) -> float:
    """F1 with the log's own seconds since its begin, as published (our `f1` counts from the first simulated job)."""
    return math.log10(planned) * procs + 870.0 * math.log10(max(submit, 1.0))


def unicep(now: float, submit: float, procs: float, planned: float, wait: float) -> float:
    """UNICEP with the job's wait (Tang et al., CLUSTER 2009); a job of one processor counts as one of 1.01."""
    return -wait / (math.log2(max(procs, 1.01)) * planned)


def policies() -> dict[str, tuple[Policy, str]]:
    """Return our policies by name, each with the source of its planned run times; jobs may run past their limits, as in
    RLScheduler."""
    by_order = {"SJF": "sjf", "F1": f1, "WFP3": "wfp", "UNICEP": unicep}
    plain = {f"EASY, {name}": (Policy(order, kill=False), "limits") for name, order in by_order.items()}
    forecast = Policy(
        order="sjf", backfill_order="sjf", running_ends="requested", first_after=172_800.0, kill=False
    )  # the policy `forecast`
    return {
        "EASY": (Policy(kill=False), "limits"),
        **plain,
        "EASY-SJBF": (Policy(backfill_order="sjf", kill=False), "limits"),
        "`forecast`, window only": (forecast, "window"),
        "`forecast`": (forecast, "history"),
    }


def learned(trace: Trace, begin: int) -> Kernel:
    """Return `kernel` after the jobs before a window that ended before the window begins."""
    before = trace[np.arange(max(begin - HISTORY, 0), begin)]
    over = before.submit_time + before.wait_time + before.run_time <= trace.submit_time[begin]
    over &= before.number("never_ran") == 0
    predictor = Kernel()
    if over.any():
        replay(before[over], {"kernel": predictor}, total=trace.info.max_procs or math.nan)
    return predictor


def slowdowns(trace: Trace, begins: Sequence[int], policy: Policy, how: str) -> np.ndarray:
    """Return the mean bounded slowdown of each window, each alone on an empty machine, shape (windows,)."""
    means = []
    for begin in begins:
        window = trace[np.arange(begin, begin + JOBS)]
        predictor: Any = {"limits": "requested", "window": "kernel"}.get(how) or learned(trace, begin)
        schedule = simulate(window, policy, predictor)
        means.append(float(bounded_slowdown(schedule.wait_time, schedule.run_time).mean()))
    return np.array(means)


def against(mean: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    """Return the paired difference over windows, its 90 % interval, and what the largest window contributes to it.

    Below 20 windows the interval is Student's; it takes the windows as independent, which windows that overlap are not.
    """
    apart = mean - reference
    one = paired_differences(mean[None], reference, np.arange(len(mean)), np.random.default_rng(0))[0]
    low, high = one.low, one.high
    if math.isnan(low):
        half = float(stats.t.ppf(0.95, len(mean) - 1) * apart.std(ddof=1) / math.sqrt(len(mean)))
        low, high = one.difference - half, one.difference + half
    return {
        "difference": one.difference, "low": low, "high": high, "largest_share": one.largest_share,
        "without": one.without, "shorter": int((apart < 0).sum()),
    }  # fmt: skip


def ours(trace: Trace, begins: Sequence[int]) -> dict[str, dict[str, Any]]:
    """Return a row for each of our policies on some windows."""
    means = {name: slowdowns(trace, begins, *how) for name, how in policies().items()}
    return {
        name: {"mean": float(mean.mean()), "largest": float(mean.max() / mean.sum()), **against(mean, means["EASY"])}
        for name, mean in means.items()
    }


def repeat(windows: Sequence[Sequence[Job]], total: float, order: str) -> dict[str, dict[str, float]]:
    """Return the results of RLScheduler's simulator for an order, without and with backfilling. They are the mean
    bounded slowdown over the windows, and the shares of it from the largest window and from jobs that never ran.
    """
    key, found = published_rule(order), {}
    for backfill in (False, True):
        means, never = zip(*(published_schedule(one, total, key, backfill) for one in windows), strict=True)
        found["backfilling" if backfill else "plain"] = {
            "mean": float(np.mean(means)), "largest": max(means) / sum(means), "never_ran": sum(never) / sum(means),
        }  # fmt: skip
    return found


def report(path: str, disjoint: int) -> dict[str, Any]:
    """Return all figures of a log."""
    trace = read_log(path)
    name = next((name for name in PUBLISHED if name in path), "")
    begins = starts(len(trace))
    jobs = jobs_of(trace)
    total = float(trace.info.max_procs or 0)
    repeated = {order: repeat([jobs[b : b + JOBS] for b in begins], total, order) for order in ORDERS}
    covered = np.unique(np.concatenate([np.arange(b, b + JOBS) for b in begins]))
    apart = [JOBS * int(k) for k in np.unique(np.linspace(1, len(trace) // JOBS - 1, disjoint, dtype=int))]
    return {
        "log": name or path, "jobs": len(trace), "starts": begins, "different_jobs": len(covered),
        "never_ran": int(trace.number("never_ran")[covered].sum()),
        "published": PUBLISHED.get(name, {}), "repeated": repeated, "ours": ours(trace, begins),
        "disjoint_windows": len(apart), "disjoint": ours(trace, apart) if apart else {},
    }  # fmt: skip


def show(found: dict[str, Any]) -> None:
    """Print one log's figures."""
    print(f"{found['log']}: {found['jobs']:,} jobs; {WINDOWS} windows begin at {found['starts']}")
    different, never = found["different_jobs"], found["never_ran"]
    print(f"  they hold {different:,} different jobs of {WINDOWS * JOBS:,}; {never:,} never ran")
    print("  RLScheduler's simulator repeated; published; share of the largest window, and of jobs that never ran")
    for order, both in found["repeated"].items():
        published = found["published"].get(order, ("-", "-"))
        for mode, said in zip(MODES, published, strict=True):
            one = both[mode]
            print(f"    {order:7} {mode:12} {one['mean']:9.2f} {said:>9} {one['largest']:6.2f} {one['never_ran']:6.2f}")
    for title, part in (("ten windows", "ours"), (f"{found['disjoint_windows']} disjoint windows", "disjoint")):
        print(
            f"  our simulator, {title}: mean; minus EASY (90 % interval); without the largest window; windows shorter"
        )
        for name, row in found[part].items():
            apart = f"{row['difference']:+8.1f} ({row['low']:+.1f} to {row['high']:+.1f})"
            print(f"    {name:26} {row['mean']:8.1f}  {apart}  {row['without']:+8.1f}  {row['shorter']}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("log", nargs="+")
    parser.add_argument("--disjoint", type=int, default=40, help="number of windows that do not overlap")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = [report(path, given.disjoint) for path in given.log]
    if given.json:
        print(json.dumps(found))
        return
    for one in found:
        show(one)


if __name__ == "__main__":
    main()
