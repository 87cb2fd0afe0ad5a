"""Speed of reading logs (lines per second of CPU by format), and the effect of predictions on sixty synthetic sites."""

from __future__ import annotations

import gzip
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from tools.demo_log import Site, synthesize

from batchcast.metrics.paired import paired_differences
from batchcast.predict.protocol import spec_words
from batchcast.simulation.policy import Policy
from batchcast.simulation.simulate import simulate
from batchcast.table import Trace
from batchcast.trace import demo_path, read_trace
from batchcast.trace.write import write_csv
from batchcast.units import format_duration

COPIES = 40


def run() -> None:
    """Print both tables."""
    speed()
    sites()


def speed() -> None:
    """Print the median of five reads of the demo log, repeated forty times."""
    trace = read_trace(demo_path())
    text = b"".join([gzip.decompress(demo_path().read_bytes())] * COPIES)
    lines = len(trace) * COPIES
    with tempfile.TemporaryDirectory() as folder:
        write_csv(trace, Path(folder) / "csv")
        head, rows = (Path(folder) / "csv").read_bytes().split(b"\n", 1)
        files = {
            "SWF, plain": text,
            "SWF, gzip": gzip.compress(text),
            "sacct, plain": as_sacct(trace).encode(),
            "PBS, plain": as_pbs(trace).encode(),
            "CSV, plain": head + b"\n" + rows * COPIES,
        }
        print(f"{'log':14} {'lines':>9} {'CPU s':>8} {'lines/s':>11}")
        for name, content in files.items():
            path = Path(folder) / "log"
            path.write_bytes(content)
            seconds = median_cpu(lambda path=path: read_trace(path))
            print(f"{name:14} {lines:9,} {seconds:8.3f} {lines / seconds:11,.0f}")


def sites(count: int = 60) -> None:
    """Print mean wait and mean bounded slowdown, means over seeds, of EASY and EASY-SJBF planned with each predictor.

    Differences are paired by seed, from EASY planned with requests, with 90 % intervals over the seeds.
    """
    rows: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for seed in range(1, count + 1):
        trace = synthesize(np.random.default_rng(seed), Site())
        for order in ("fcfs", "sjf"):
            for plan in ("requested", "last_2", "recent_mean", "actual"):
                got = simulate(trace, Policy(backfill_order=order), plan).measures()
                row = (got["mean_wait_s"], got["mean_bounded_slowdown"])
                rows.setdefault((Policy(backfill_order=order).name, plan), []).append(row)
    values = np.array(list(rows.values()))  # (policies, seeds, measures)
    rng = np.random.default_rng(0)
    paired = [paired_differences(values[1:, :, m], values[0, :, m], np.arange(count), rng) for m in range(2)]
    head = f"{'policy':10} {'planned with':17} {'mean wait, s':>12} {'90 %':>20} {'slowdown':>9} {'90 %':>16}"
    print(f"\n{head}   ({count} seeds)")
    for k, ((policy, plan), (wait, slowdown)) in enumerate(zip(rows, values.mean(axis=1))):
        first = f"{paired[0][k - 1].low:+,.0f} to {paired[0][k - 1].high:+,.0f}" if k else ""
        second = f"{paired[1][k - 1].low:+.1f} to {paired[1][k - 1].high:+.1f}" if k else ""
        print(f"{policy:10} {spec_words(plan):17} {wait:12,.0f} {first:>20} {slowdown:9.1f} {second:>16}")


def as_sacct(trace: Trace) -> str:
    """Return the demo log as Slurm would print it, repeated as often as the SWF one."""
    head = "JobID|User|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|ReqCPUS|AllocCPUS"
    rows = []
    users = trace.nominal("user_id").decode()
    for k, (submit, wait, span) in enumerate(zip(trace.submit_time, trace.wait_time, np.nan_to_num(trace.run_time))):
        times = [stamp(trace.info.unix_start + t) for t in (submit, submit + wait, submit + wait + span)]
        procs = int(trace.procs()[k])
        limit = int(trace.req_time[k] / 60)
        rows.append("|".join(map(str, (k + 1, users[k], "COMPLETED", *times, int(span), limit, procs, procs))))
    return "\n".join([head, *rows * COPIES])


def as_pbs(trace: Trace) -> str:
    """Return the demo log as PBS Pro would record it: the E records, repeated as often as the SWF one."""
    rows = []
    users = trace.nominal("user_id").decode()
    for k, (submit, wait, span) in enumerate(zip(trace.submit_time, trace.wait_time, np.nan_to_num(trace.run_time))):
        at, start = int(trace.info.unix_start + submit), int(trace.info.unix_start + submit + wait)
        procs, used, limit = int(trace.procs()[k]), format_duration(span), format_duration(trace.req_time[k])
        day = datetime.fromtimestamp(start + span, UTC).strftime("%m/%d/%Y %H:%M:%S")
        rows.append(
            f"{day};E;{k + 1}.server;user={users[k]} group=staff "
            f'account="A{k % 40:04}" project=_pbs_project_default '
            f"jobname=job{k % 300} queue=workq ctime={at} qtime={at} etime={at} start={start} "
            f"exec_host=n{k % 99}/0*{procs} "
            f"exec_vnode=(n{k % 99}:ncpus={procs}:mem=10485760kb) Resource_List.mem=10gb Resource_List.ncpus={procs} "
            f"Resource_List.nodect=1 Resource_List.place=pack Resource_List.select=1:ncpus={procs}:mem=10gb "
            f"Resource_List.walltime={limit} session={k} end={start + int(span)} Exit_status=0 "
            f"resources_used.cpupercent=95 resources_used.cput={used} resources_used.mem=37920kb "
            f"resources_used.ncpus={procs} resources_used.vmem=37920kb resources_used.walltime={used} run_count=1"
        )
    return "\n".join(rows * COPIES)


def stamp(epoch: float) -> str:
    """Return an instant in Slurm's form."""
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def median_cpu(work: Callable[[], object]) -> float:
    """Return the median CPU seconds of five runs, after one that warms up."""
    work()
    seconds = []
    for _ in range(5):
        before = time.process_time()
        work()
        seconds.append(time.process_time() - before)
    return statistics.median(seconds)
