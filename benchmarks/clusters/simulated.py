"""Where should a job go? Eight ways to choose among clusters, on the same jobs, simulated.

    python -m benchmarks.clusters.simulated SHARED [--jobs N] [--out FILE]

Five public logs are shifted to one beginning and run at the same time (`pool.py`: EASY backfill by users' limits). A
third of the jobs may go anywhere they fit; the others stay at home. Run times do not change with the cluster. On
Microsoft's ten GPU clusters limits and users are unknown: a limit is drawn once per job as 2 to 5 run times.

Arms: home; random; least loaded (processor-seconds of limits that run and wait, per processor); test_only (start by
limits without backfill, as Slurm's will-run); race_all (submitted everywhere, the rest cancelled at the first start);
batchcast (`forecast` starts, expected end); stale (the same by a queue as of up to 5 minutes ago, as a collector sees
it); counted (stale, with what was just sent there); oracle (starts by true run times if nobody else came).
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from batchcast.clusters.finish import combined
from batchcast.events.driver import Driver
from batchcast.events.event import End, Start, Submit
from batchcast.events.state import SystemState
from batchcast.job import as_submitted
from batchcast.predict.conditional import given_waited
from batchcast.predict.registry import make
from batchcast.service.answers.script import JUST_SUBMITTED_S, SPREAD_SHARES

from .pool import Job, Pool, start_of

LOGS = ("KTH-SP2-1996-2.1-cln", "SDSC-SP2-1998-4.2-cln", "CTC-SP2-1996-3.1-cln", "HPC2N-2002-2.2-cln",
        "SDSC-BLUE-2000-4.2-cln")  # fmt: skip
EVERY_S = 300.0
ARMS = ("home", "random", "least_loaded", "test_only", "race_all", "batchcast", "stale", "counted", "oracle")


class Cluster:
    """A pool with the predictors of a live collector beside it, which see its events at once or every few minutes."""

    def __init__(self, size: float, forecasts: bool, delay_s: float, counts: bool) -> None:
        self.pool, self.delay_s, self.counts = Pool(size), delay_s, counts
        self.driver = (
            Driver({"wait": make("wait", "forecast"), "run": make("runtime", "recent_mean")}, SystemState(size))
            if forecasts
            else None
        )
        self.pending: list[tuple[float, int, int, Any]] = []
        self.asked_at: dict[int, float] = {}

    def request(self, job: Job) -> Any:
        values = {"job_id": str(job.row), "submit_time": job.submit, "req_time": job.limit, "req_procs": job.procs}
        return as_submitted(job.row, {**values, "user_id": job.user}, procs=job.procs)

    def note(self, time: float, rank: int, event: Any) -> None:
        if self.driver is not None:
            self.pending.append((time, rank, len(self.pending), event))

    def tell(self, now: float) -> None:
        """The driver hears what a collector has seen by now; a submission that was counted is heard at once."""
        if self.driver is None or not self.pending:
            return
        seen = math.floor(now / self.delay_s) * self.delay_s if self.delay_s else now
        # one order in time: what lies behind a counted submission waits for the collector, the submission does not
        ready = [one for one in self.pending if one[0] <= seen or (self.counts and one[1] == 2)]
        self.pending = [one for one in self.pending if not (one[0] <= seen or (self.counts and one[1] == 2))]
        for *_, event in sorted(ready, key=lambda one: (one[0], one[1], one[2])):
            self.driver.tell(event, ask=False)

    def expected_end(self, job: Job, now: float) -> float:
        """The expected end of a job that were submitted now, by wait and run time as `start --where` combines them."""
        assert self.driver is not None
        self.tell(now)
        self.driver.state.now = now
        request = self.request(job)
        wait = self.driver.predictors["wait"].predict(request, self.driver.state)
        waits = list(given_waited(wait, JUST_SUBMITTED_S, SPREAD_SHARES).quantiles)
        return combined([w if math.isfinite(w) else 4 * job.limit for w in waits], [0.0]).expected


def read_logs(shared: Path, jobs: int) -> tuple[list[Job], list[float]]:
    """The jobs of five logs, each from its 1000th on, shifted to one beginning; and the machines' sizes."""
    from batchcast.trace.read import read_trace

    all_jobs: list[Job] = []
    sizes = []
    for home, name in enumerate(LOGS):
        log = read_trace(shared / "traces" / f"{name}.swf.gz")
        size = float(log.info.max_procs)
        sizes.append(size)
        all_jobs += _jobs_of(log, home, size, jobs, first=1000)
    return _numbered(all_jobs), sizes


def _jobs_of(log: Any, home: int, size: float, jobs: int, first: int) -> list[Job]:
    submit, run, limit, procs = log.submit_time, log.run_time, log.req_time, log.procs()
    users = log.nominal("user_id").codes
    good = np.flatnonzero((run > 0) & (procs > 0) & (procs <= size))[first : first + jobs]
    limit = np.where(np.isfinite(limit) & (limit > 0), limit, run * 2)
    begin = submit[good[0]]
    return [
        Job(-1, float(submit[k] - begin), float(procs[k]), float(max(limit[k], run[k])), float(max(run[k], 1.0)),
            f"{home}:{users[k]}", home) for k in good
    ]  # fmt: skip


def read_microsoft(shared: Path, jobs: int, seed: int = 1) -> tuple[list[Job], list[float]]:
    """Microsoft's ten clusters; the size of a cluster is the least that holds 85 % of its offered work, at least 32."""
    rng = np.random.default_rng(seed)
    all_jobs: list[Job] = []
    sizes = []
    for home in range(10):
        rows = np.genfromtxt(shared / f"traces/modern/microsoft-itp-2021/cluster{home + 1:02d}.csv", delimiter=",",
                             skip_header=1, usecols=(1, 2, 3))  # fmt: skip
        rows = rows[(rows[:, 1] > 0) & (rows[:, 2] > 0)]
        rows = rows[np.argsort(rows[:, 0], kind="stable")][:jobs]
        work, span = float((rows[:, 1] * rows[:, 2]).sum()), float(np.ptp(rows[:, 0])) or 1.0
        sizes.append(float(max(math.ceil(work / span / 0.85), rows[:, 2].max(), 32)))
        padded = rows[:, 1] * rng.uniform(2, 5, len(rows))
        all_jobs += [Job(-1, float(s - rows[0, 0]), float(g), float(p), float(d), f"{home}", home)
                     for (s, d, g), p in zip(rows, padded)]  # fmt: skip
    return _numbered(all_jobs), sizes


def _numbered(jobs: Sequence[Job]) -> list[Job]:
    return [job._replace(row=row) for row, job in enumerate(sorted(jobs, key=lambda each: each.submit))]


def load_of(pool: Pool) -> float:
    """Processor-seconds that run and wait, by limits, per processor."""
    waits = sum(job.procs * job.limit for job in pool.queue.values())
    runs = sum(job.procs * max(at + job.limit - pool.now, 0.0) for job, at in pool.running.values())
    return (waits + runs) / pool.size


def will_run(pool: Pool, job: Job) -> float:
    """Slurm's will-run: the start beside running jobs by limits, plus the work of what waits, per processor."""
    empty = pool.copy()
    empty.queue = {}
    beside = start_of(empty, job, [(row, each.limit) for row, (each, _) in pool.running.items()])
    return beside + sum(each.procs * each.limit for each in pool.queue.values()) / pool.size


def run(jobs: Sequence[Job], sizes: Sequence[float], arm: str, movers: np.ndarray, seed: int = 1) -> np.ndarray:
    """Start and cluster of every job, (n, 2), and how many submissions were made in the last row."""
    rng = np.random.default_rng(seed)
    forecasts = arm in ("batchcast", "stale", "counted")
    clusters = [Cluster(size, forecasts, EVERY_S if arm in ("stale", "counted") else 0.0, arm == "counted")
                for size in sizes]  # fmt: skip
    result = np.full((len(jobs) + 1, 2), math.nan)
    submissions = 0
    everywhere: dict[int, list[int]] = {}

    def started(c: int, pairs: Sequence[tuple[Job, float]]) -> None:
        for job, at in pairs:
            result[job.row] = at, c
            cluster = clusters[c]
            request = cluster.request(job)
            cluster.note(at, 3, Start(at, request, at - job.submit))
            cluster.note(at + job.run, 0, End(at + job.run, request, job.run, at - job.submit, "completed"))
            for other in everywhere.pop(job.row, []):
                if other != c:
                    clusters[other].pool.withdraw(job.row, at)

    def until(now: float) -> None:
        while True:
            k = min(range(len(clusters)), key=lambda c: clusters[c].pool.next_event())
            at = clusters[k].pool.next_event()
            if at > now or at == math.inf:
                break
            started(k, clusters[k].pool.advance(at))
        for k, cluster in enumerate(clusters):
            started(k, cluster.pool.advance(now))

    choose: dict[str, Callable[[Job, int], float]] = {
        "random": lambda job, c: float(rng.random()),
        "least_loaded": lambda job, c: load_of(clusters[c].pool),
        "test_only": lambda job, c: will_run(clusters[c].pool, job),
        "oracle": lambda job, c: start_of(clusters[c].pool, job),
    }
    for job in jobs:
        until(job.submit)
        fits = [c for c, size in enumerate(sizes) if job.procs <= size]
        if arm == "home" or not movers[job.row]:
            targets = [job.home]
        elif arm == "race_all":
            targets = fits
        else:
            rate = choose.get(arm) or (lambda job, c: clusters[c].expected_end(job, job.submit))
            costs = {c: rate(job, c) for c in fits}
            targets = [min(fits, key=lambda c: (costs[c], c != job.home, c))]
        submissions += len(targets)
        if len(targets) > 1:
            everywhere[job.row] = list(targets)
        for c in targets:
            clusters[c].pool.add(job)
            clusters[c].note(job.submit, 2, Submit(job.submit, clusters[c].request(job)))
    until(math.inf)
    result[-1] = submissions, math.nan
    return result


def compared(
    jobs: Sequence[Job], sizes: Sequence[float], arms: Sequence[str], share: float, seed: int = 1
) -> list[Any]:
    """One row an arm: waits of those who move and of those who stay, paired with `home` over days."""
    rng = np.random.default_rng(seed)
    users = sorted({job.user for job in jobs})
    follows = dict(zip(users, rng.random(len(users)) < share))
    free = rng.random(len(jobs)) < 1 / 3
    movers = np.array([free[job.row] and (follows[job.user] if len(users) > 50 else rng.random() < share)
                       for job in jobs])  # fmt: skip
    submit = np.array([job.submit for job in jobs])
    day = (submit // 86400.0).astype(int)
    rows, home = [], run(jobs, sizes, "home", movers)[:-1, 0] - submit
    for arm in arms:
        found = run(jobs, sizes, arm, movers)
        wait = found[:-1, 0] - submit
        gain, low, high = paired(home[movers] - wait[movers], day[movers])
        harm, harm_low, harm_high = paired(wait[~movers] - home[~movers], day[~movers])
        rows.append({
            "arm": arm, "follow": share, "movers": int(movers.sum()), "submissions": int(found[-1, 0]),
            "mean_wait_movers_s": float(wait[movers].mean()), "median_wait_movers_s": float(np.median(wait[movers])),
            "mean_wait_stayers_s": float(wait[~movers].mean()),
            "gain_s": gain, "gain_low_s": low, "gain_high_s": high,
            "stayers_longer_s": harm, "stayers_longer_low_s": harm_low, "stayers_longer_high_s": harm_high,
        })  # fmt: skip
        print(json.dumps(rows[-1]), flush=True)
    return rows


def paired(values: np.ndarray, day: np.ndarray, resamples: int = 1000) -> tuple[float, float, float]:
    """The mean with its 90 % interval, by a bootstrap over days."""
    days, where = np.unique(day, return_inverse=True)
    sums, counts = np.bincount(where, values), np.bincount(where)
    picks = np.random.default_rng(1).integers(0, len(days), (resamples, len(days)))
    means = sums[picks].sum(axis=1) / counts[picks].sum(axis=1)
    return float(values.mean()), float(np.quantile(means, 0.05)), float(np.quantile(means, 0.95))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path)
    parser.add_argument("--jobs", type=int, default=1000, help="jobs of each log")
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--follow", default="1.0,0.5,0.1", help="shares of users that follow")
    parser.add_argument("--logs", choices=("public", "microsoft"), default="public")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    jobs, sizes = (read_logs if given.logs == "public" else read_microsoft)(given.shared, given.jobs)
    rows = []
    for share in map(float, given.follow.split(",")):
        rows += compared(jobs, sizes, given.arms.split(","), share)
    if given.out:
        settings = {"logs": given.logs, "jobs_of_each": given.jobs, "sizes": sizes, "stale_every_s": EVERY_S}
        given.out.write_text(json.dumps({"settings": settings, "results": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
