"""Reading logs: lines a second of CPU for SWF and sacct, and what forecasts are worth on sixty synthetic sites."""

from __future__ import annotations

import gzip
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from batchcast.simulate.policy import Policy
from batchcast.simulate.simulate import simulate
from batchcast.table import Trace
from batchcast.trace import demo_path, read_trace
from batchcast.trace.synth import Site, synthesize

COPIES = 40


def run() -> None:
    """Print both tables."""
    speed()
    sites()


def speed() -> None:
    """Median of five reads of the demo log, written out forty times over."""
    trace = read_trace(demo_path())
    text = b"".join([gzip.decompress(demo_path().read_bytes())] * COPIES)
    dump = as_sacct(trace)
    lines = len(trace) * COPIES
    with tempfile.TemporaryDirectory() as folder:
        files = {"SWF, plain": text, "SWF, gzip": gzip.compress(text), "sacct, plain": dump.encode()}
        print(f"{'log':14} {'lines':>9} {'CPU s':>8} {'lines/s':>11}")
        for name, content in files.items():
            path = Path(folder) / "log"
            path.write_bytes(content)
            seconds = median_cpu(lambda path=path: read_trace(path))
            print(f"{name:14} {lines:9,} {seconds:8.3f} {lines / seconds:11,.0f}")


def sites(count: int = 60) -> None:
    """Mean over seeds of mean wait and mean bounded slowdown, EASY and EASY-SJBF, by what plans them."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for seed in range(1, count + 1):
        trace = synthesize(np.random.default_rng(seed), Site())
        for order in ("fcfs", "sjf"):
            for plan in ("requested", "last_2", "recent_mean", "actual"):
                got = simulate(trace, Policy(backfill_order=order), plan).measures()
                row = (got["mean_wait_s"], got["mean_bounded_slowdown"])
                found.setdefault((Policy(backfill_order=order).name, plan), []).append(row)
    print(f"\n{'policy':12} {'planned with':14} {'mean wait, s':>13} {'bounded slowdown':>17}   ({count} seeds)")
    for (policy, plan), rows in found.items():
        wait, slowdown = np.mean(rows, axis=0)
        print(f"{policy:12} {plan:14} {wait:13,.0f} {slowdown:17.1f}")


def as_sacct(trace: Trace) -> str:
    """The demo log as Slurm would print it, as often as the SWF one."""
    head = "JobID|User|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|ReqCPUS|AllocCPUS"
    rows = []
    users = trace.nominal("user_id").decode()
    for k, (submit, wait, span) in enumerate(zip(trace.submit_time, trace.wait_time, np.nan_to_num(trace.run_time))):
        times = [stamp(trace.info.unix_start + t) for t in (submit, submit + wait, submit + wait + span)]
        procs = int(trace.procs()[k])
        limit = int(trace.req_time[k] / 60)
        rows.append("|".join(map(str, (k + 1, users[k], "COMPLETED", *times, int(span), limit, procs, procs))))
    return "\n".join([head, *rows * COPIES])


def stamp(epoch: float) -> str:
    """Slurm's form of an instant."""
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def median_cpu(work: Callable[[], object]) -> float:
    """Median CPU seconds of five runs, after one that warms up."""
    work()
    seconds = []
    for _ in range(5):
        before = time.process_time()
        work()
        seconds.append(time.process_time() - before)
    return statistics.median(seconds)
