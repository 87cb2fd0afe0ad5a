"""Where should a job run? Simulates eight ways to choose among clusters, on the same jobs.

    python -m benchmarks.clusters.simulated LOG... [--jobs N]      two or more logs of clusters
    python -m benchmarks.clusters.simulated microsoft-itp-2021     a folder with one CSV for each cluster

The logs are shifted to the same beginning and run at the same time (`pool.py`: EASY backfill by users' limits). A third
of the jobs may run on any cluster that is large enough; the others stay at home. A job has the same run time on every
cluster. Microsoft's ten GPU clusters have no limits and users: a limit of 2 to 5 run times is drawn once for each job.

Arms: home; random; least_loaded (processor-seconds of limits that run and wait, per processor); test_only (start by
limits without backfill, as Slurm's will-run); race_all (submitted everywhere, the rest cancelled at the first start);
predicted (start simulated with predicted run times: the mean of the user's last two jobs, at most the limit); stale
(the same with the queue as of the last full five minutes, as a collector sees it); counted (stale, plus the jobs that
were sent to the cluster since then); oracle (start by true run times if no other job arrived); batchcast (the method
`forecast`, fresh: minutes of CPU for a thousand jobs, so not among the default arms).
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
from collections import deque
from collections.abc import Sequence
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

EVERY_S = 300.0
ARMS = ("home", "random", "least_loaded", "test_only", "race_all", "predicted", "stale", "counted", "oracle")


class Forecasts:
    """The predictors of a live collector beside one pool; they receive the pool's events as they happen."""

    def __init__(self, size: float) -> None:
        self.driver = Driver({"wait": make("wait", "forecast")}, SystemState(size))
        self.pending: list[tuple[float, int, int, Any]] = []

    @staticmethod
    def request(job: Job) -> Any:
        values = {"job_id": str(job.row), "submit_time": job.submit, "req_time": job.limit, "req_procs": job.procs}
        return as_submitted(job.row, {**values, "user_id": job.user}, procs=job.procs)

    def came(self, job: Job) -> None:
        self.pending.append((job.submit, 2, len(self.pending), Submit(job.submit, self.request(job))))

    def started(self, job: Job, at: float) -> None:
        request, wait, end = self.request(job), at - job.submit, at + job.run
        self.pending.append((at, 3, len(self.pending), Start(at, request, wait)))
        self.pending.append((end, 0, len(self.pending), End(end, request, job.run, wait, "completed")))

    def expected_wait(self, job: Job) -> float:
        """Return the expected wait of a job that is submitted now, as `start --where` computes it."""
        due = sorted((one for one in self.pending if one[0] <= job.submit), key=lambda one: one[:3])
        self.pending = [one for one in self.pending if one[0] > job.submit]
        for *_, event in due:
            self.driver.tell(event, ask=False)
        self.driver.state.now = job.submit
        wait = self.driver.predictors["wait"].predict(self.request(job), self.driver.state)
        waits = given_waited(wait, JUST_SUBMITTED_S, SPREAD_SHARES).quantiles
        return combined([w if math.isfinite(w) else 4 * job.limit for w in waits], [0.0]).expected


class LastRuns:
    """The mean of a user's last two run times, known when the jobs have ended (Tsafrir et al. 2007)."""

    def __init__(self) -> None:
        self.ends: list[tuple[float, int, str, float]] = []
        self.runs: dict[str, deque[float]] = {}

    def started(self, job: Job, at: float) -> None:
        heapq.heappush(self.ends, (at + job.run, job.row, job.user, job.run))

    def learn(self, now: float) -> None:
        while self.ends and self.ends[0][0] <= now:
            _, _, user, run = heapq.heappop(self.ends)
            self.runs.setdefault(user, deque(maxlen=2)).append(run)

    def of(self, job: Job) -> float:
        known = self.runs.get(job.user)
        return min(sum(known) / len(known), job.limit) if known else job.limit


def read_logs(paths: Sequence[Path], jobs: int) -> tuple[list[Job], list[float]]:
    """Return the jobs of the logs, each from its 1000th on, shifted to one beginning; and the machines' sizes."""
    from batchcast.trace.read import read_trace

    all_jobs: list[Job] = []
    sizes = []
    for home, path in enumerate(paths):
        log = read_trace(path)
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


def read_folder(folder: Path, jobs: int, seed: int = 1) -> tuple[list[Job], list[float]]:
    """Read one CSV for each cluster: submission, duration and GPUs.

    The file does not give the cluster's size. The size is set so that the submitted work fills 70 % of it.
    """
    rng = np.random.default_rng(seed)
    all_jobs: list[Job] = []
    sizes = []
    for home, path in enumerate(sorted(folder.glob("*.csv"))):
        rows = np.genfromtxt(path, delimiter=",", skip_header=1, usecols=(1, 2, 3))
        rows = rows[(rows[:, 1] > 0) & (rows[:, 2] > 0)]
        rows = rows[np.argsort(rows[:, 0], kind="stable")][:jobs]
        work, span = float((rows[:, 1] * rows[:, 2]).sum()), float(np.ptp(rows[:, 0])) or 1.0
        sizes.append(float(max(math.ceil(work / span / 0.7), rows[:, 2].max(), 32)))
        limits = rows[:, 1] * rng.uniform(2, 5, len(rows))
        all_jobs += [
            Job(-1, float(submit - rows[0, 0]), float(gpus), float(limit), float(run), f"{home}", home)
            for (submit, run, gpus), limit in zip(rows, limits)
        ]
    return _numbered(all_jobs), sizes


def _numbered(jobs: Sequence[Job]) -> list[Job]:
    return [job._replace(row=row) for row, job in enumerate(sorted(jobs, key=lambda each: each.submit))]


def load_of(pool: Pool) -> float:
    """Return processor-seconds by limits of running and waiting jobs, per processor."""
    waits = sum(job.procs * job.limit for job in pool.queue.values())
    runs = sum(job.procs * max(at + job.limit - pool.now, 0.0) for job, at in pool.running.values())
    return (waits + runs) / pool.size


def will_run(pool: Pool, job: Job) -> float:
    """Return Slurm's will-run estimate: the start beside running jobs by limits, plus the waiting work per
    processor."""
    empty = pool.copy()
    empty.queue = {}
    beside = start_of(empty, job, [(row, each.limit) for row, (each, _) in pool.running.items()])
    return beside + sum(each.procs * each.limit for each in pool.queue.values()) / pool.size


class Simulation:
    """All clusters under one way to choose."""

    def __init__(self, sizes: Sequence[float], arm: str, jobs: int, seed: int) -> None:
        self.arm, self.sizes, self.rng = arm, sizes, np.random.default_rng(seed)
        self.pools = [Pool(size) for size in sizes]
        self.forecasts = [Forecasts(size) for size in sizes] if arm == "batchcast" else []
        self.last = LastRuns()
        self.seen, self.seen_at = [pool.copy() for pool in self.pools], 0.0
        self.sent: list[list[Job]] = [[] for _ in sizes]
        self.everywhere: dict[int, list[int]] = {}
        self.starts = np.full((jobs, 2), math.nan)
        self.submissions = 0

    def until(self, now: float) -> None:
        """Process everything up to an instant, over all clusters in order of time."""
        while True:
            k = min(range(len(self.pools)), key=lambda c: self.pools[c].next_event())
            at = self.pools[k].next_event()
            if at > now or at == math.inf:
                break
            self._look(at)
            self._started(k, self.pools[k].advance(at))
        if now < math.inf:
            self._look(now)
            for k, pool in enumerate(self.pools):
                self._started(k, pool.advance(now))

    def _look(self, at: float) -> None:
        """Save the state before this event as the collector's view, if five full minutes have passed."""
        if self.arm in ("stale", "counted") and at // EVERY_S * EVERY_S > self.seen_at:
            self.seen, self.seen_at = [pool.copy() for pool in self.pools], at // EVERY_S * EVERY_S
            self.sent = [[] for _ in self.pools]

    def _started(self, c: int, pairs: Sequence[tuple[Job, float]]) -> None:
        for job, at in pairs:
            self.starts[job.row] = at, c
            self.last.started(job, at)
            if self.forecasts:
                self.forecasts[c].started(job, at)
            for other in self.everywhere.pop(job.row, []):
                if other != c:
                    self.pools[other].withdraw(job.row, at)

    def cost(self, job: Job, c: int) -> float:
        """Return the value that the arm minimizes over clusters."""
        if self.arm == "random":
            return float(self.rng.random())
        if self.arm == "least_loaded":
            return load_of(self.pools[c])
        if self.arm == "test_only":
            return will_run(self.pools[c], job)
        if self.arm == "oracle":
            return start_of(self.pools[c], job)
        if self.arm == "batchcast":
            return self.forecasts[c].expected_wait(job)
        pool = self.pools[c] if self.arm == "predicted" else self.seen[c].copy()
        for other in self.sent[c] if self.arm == "counted" else ():
            pool.add(other)
        there = [*pool.queue.values(), *(each for each, _ in pool.running.values())]
        return start_of(pool, job, [(each.row, self.last.of(each)) for each in there])

    def submit(self, job: Job, may_move: bool) -> None:
        """Submit one job to the cluster that the arm chooses."""
        self.until(job.submit)
        self.last.learn(job.submit)
        fits = [c for c, size in enumerate(self.sizes) if job.procs <= size]
        if self.arm == "home" or not may_move:
            targets = [job.home]
        elif self.arm == "race_all":
            targets = fits
        else:
            costs = {c: self.cost(job, c) for c in fits}
            targets = [min(fits, key=lambda c: (costs[c], c != job.home, c))]
        self.submissions += len(targets)
        if len(targets) > 1:
            self.everywhere[job.row] = list(targets)
        for c in targets:
            self.pools[c].add(job)
            self.sent[c].append(job)
            if self.forecasts:
                self.forecasts[c].came(job)


def run(
    jobs: Sequence[Job], sizes: Sequence[float], arm: str, movers: np.ndarray, seed: int = 1
) -> tuple[np.ndarray, int]:
    """Return start and cluster of every job, (n, 2), and the number of submissions."""
    simulation = Simulation(sizes, arm, len(jobs), seed)
    for job in jobs:
        simulation.submit(job, bool(movers[job.row]))
    simulation.until(math.inf)
    return simulation.starts, simulation.submissions


def compared(
    jobs: Sequence[Job], sizes: Sequence[float], arms: Sequence[str], share: float, seed: int = 1
) -> list[Any]:
    """Return one row per arm: waits of free jobs and of jobs at home, paired with `home` over days."""
    rng = np.random.default_rng(seed)
    users = sorted({job.user for job in jobs})
    follows = dict(zip(users, rng.random(len(users)) < share))
    free = rng.random(len(jobs)) < 1 / 3
    movers = np.array([free[job.row] and (follows[job.user] if len(users) > 50 else rng.random() < share)
                       for job in jobs])  # fmt: skip
    submit = np.array([job.submit for job in jobs])
    day = (submit // 86400.0).astype(int)
    rows, home = [], run(jobs, sizes, "home", movers)[0][:, 0] - submit
    for arm in arms:
        starts, submissions = run(jobs, sizes, arm, movers)
        wait = starts[:, 0] - submit
        gain, low, high = paired(home[movers] - wait[movers], day[movers])
        harm, harm_low, harm_high = paired(wait[~movers] - home[~movers], day[~movers])
        rows.append({
            "arm": arm, "follow": share, "movers": int(movers.sum()), "submissions": submissions,
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
    parser.add_argument("logs", type=Path, nargs="+")
    parser.add_argument("--jobs", type=int, default=1500, help="jobs of each log")
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--follow", default="1.0,0.5,0.1", help="shares of users that follow")
    given = parser.parse_args()
    is_folder = given.logs[0].is_dir()
    jobs, sizes = read_folder(given.logs[0], given.jobs) if is_folder else read_logs(given.logs, given.jobs)
    for share in map(float, given.follow.split(",")):
        compared(jobs, sizes, given.arms.split(","), share)


if __name__ == "__main__":
    main()
