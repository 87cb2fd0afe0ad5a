"""A synthetic log of a machine with nodes, GPUs and partitions, and the code that generated it.

The log's waits come from a simulation of Slurm's two loops on that machine. `python -m tests.cluster FILE.csv` writes
the log again.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from tools.demo_log import HOUR, Repeated, draw_arrivals, draw_run, with_waits

from batchcast.errors import UsageError
from batchcast.formats.slurm.resources import Names
from batchcast.machines.machine import Machine, Partition
from batchcast.machines.toml import read_machine_toml
from batchcast.table import LogInfo, Trace
from batchcast.trace.write import write_by_ending

DAY = 24 * HOUR
LIMITS = tuple(HOUR * hours for hours in (0.5, 1, 4, 12, 24, 48, 72))
BATCH_S = 2 * HOUR  # the largest work of one batch, in seconds of the whole machine
POPULAR = (2, 2, 4, 4, 5)  # indices into LIMITS that users copy from the site's examples
NAMES = ("align", "sweep", "train", "relax", "mesh", "fold", "sample", "render", "assemble", "fit", "screen", "post")


@dataclass(frozen=True, slots=True)
class Crowd:
    """The users of a synthetic log.

    Attributes
    ----------
    jobs, users
        Number of jobs and users.
    load
        Mean share of the processors that are requested.
    rush, rush_days
        Share of the submissions that come on this many days of overload.
    cancelled
        Share of the waiting jobs that leave the queue without running.
    unix_start
        Epoch second at which the log begins.
    """

    jobs: int = 4000
    users: int = 45
    load: float = 0.65
    rush: float = 0.3
    rush_days: int = 4
    cancelled: float = 0.03
    unix_start: float = 1767571200.0  # Monday 2026-01-05 00:00 UTC

    def __post_init__(self) -> None:
        shares = 0 <= self.cancelled < 1 and 0 <= self.rush < 1
        if self.jobs < 1 or self.users < 1 or not self.load > 0 or not shares:
            raise UsageError(
                "Crowd: wrong value (accepted: jobs and users of at least 1, load above 0, rush and cancelled from 0 "
                "to below 1)"
            )


@dataclass(frozen=True, slots=True)
class Habit(Repeated):
    """One program of a user, submitted as an array or as single jobs."""

    user: str
    account: str
    name: str
    partition: str
    gpus: int
    tasks: float


Job = tuple[float, Habit, float, str]
"""Submit time and run time in seconds, habit, and status of a generated job."""


def synthesize_on(rng: np.random.Generator, machine: Machine, crowd: Crowd = Crowd()) -> Trace:
    """Generate a log for a machine; its waits come from a simulation of Slurm's two loops with the users' time limits.

    Parameters
    ----------
    rng
        Source of random numbers. Only `rng.random` is used, so a seed gives the same log with every NumPy version.
    machine
        The machine.
    crowd
        The users. The simulated load is close to `crowd.load`.

    Returns
    -------
    Trace

    Raises
    ------
    UsageError
        If no partition of the machine is up.

    Examples
    --------
    >>> from batchcast.machines.machine import homogeneous
    >>> log = synthesize_on(np.random.default_rng(1), homogeneous(2, 16, 64000.0), Crowd(jobs=40, users=4))
    >>> len(log), bool((log.wait_time >= 0).all())
    (40, True)
    """
    partitions = [part for part in machine.partitions if part.up]
    if not partitions:
        raise UsageError("the machine has no partition that is up")
    habits = [
        draw_habit(rng, k, machine, partitions) for u in range(crowd.users) for k in [u] * (1 + int(2 * rng.random()))
    ]
    batches = draw_batches(rng, habits, crowd.jobs, BATCH_S * machine.cpus)
    area = sum(habit.procs * run for batch in batches for habit, run, _ in batch)
    starts = draw_starts(rng, len(batches), area / (machine.cpus * crowd.load), crowd)
    jobs: list[Job] = []
    for at, batch in zip(starts, batches, strict=True):
        # all tasks of an array are submitted at one instant
        pause = 0.0 if batch[0][0].tasks > 5 else 60.0 + 600.0 * rng.random()
        jobs += [(math.floor(at + k * pause), *one) for k, one in enumerate(batch)]
    from batchcast.simulation.on_nodes import simulate_on  # imported here because this module loads numba

    trace = _trace(sorted(jobs, key=lambda job: job[0]), machine, crowd)
    return with_waits(rng, trace, crowd.cancelled, partial(simulate_on, machine))


def draw_habit(rng: np.random.Generator, user: int, machine: Machine, partitions: Sequence[Partition]) -> Habit:
    """Draw one program of a user. In a GPU partition the program requests some GPUs; time limits are a few popular
    values.
    """
    part = partitions[0] if rng.random() < 0.7 else partitions[int(rng.random() * len(partitions))]
    group = next(group for group in machine.nodes if set(group.names) & set(part.nodes))
    has = int(sum(count for name, count in group.gres.items() if name.startswith("gpu")))
    gpus = min(2 ** int(3 * rng.random() ** 2), has)
    share = gpus / has if gpus else 2.0 ** -int(4 * rng.random())
    nodes = min(1 + int(4 * rng.random() ** 4), len(part.nodes)) if not gpus and share == 1 else 1
    procs = max(int(group.cpus * share), 1) * nodes
    memory = group.memory_mib if math.isfinite(group.memory_mib) else 1024.0 * group.cpus
    median, sigma = 60.0 * 600.0 ** rng.random(), 0.2 + 0.8 * rng.random() ** 2
    popular = LIMITS[POPULAR[int(rng.random() * len(POPULAR))]]
    needed = median * math.exp(1.5 * sigma)
    limit = (
        popular if popular >= needed and rng.random() < 0.8 else next((x for x in LIMITS if x >= needed), LIMITS[-1])
    )
    account, name = f"group{user % 7 + 1}", NAMES[int(rng.random() * len(NAMES))]
    asked = 1024.0 * math.floor(memory * procs / group.cpus * (0.3 + 0.6 * rng.random()))
    tasks = 1.0 + (30.0 * rng.random() if rng.random() < 0.4 else 4.0 * rng.random())
    failure, limit = 0.03 + 0.2 * rng.random() ** 2, min(limit, part.max_time)
    return Habit(median, sigma, procs, limit, asked, failure, f"u{user + 1:02d}", account, name, part.name, gpus, tasks)


def draw_batches(
    rng: np.random.Generator, habits: Sequence[Habit], jobs: int, most: float
) -> list[list[tuple[Habit, float, str]]]:
    """Draw arrays and sessions until there are as many jobs as requested. A few users submit most of the jobs.

    A batch has at most about `most` processor-seconds, because users submit fewer of their large jobs.
    """
    weights = np.cumsum([(1 + k) ** -0.5 for k in range(len(habits))])
    batches: list[list[tuple[Habit, float, str]]] = []
    left = jobs
    while left > 0:
        habit = habits[int(np.searchsorted(weights, rng.random() * weights[-1], side="right"))]
        count = min(1 + int(-math.log(1.0 - rng.random()) * habit.tasks), left)
        count = min(count, max(int(most / (habit.procs * habit.median_s)), 1))
        batches.append([(habit, *draw_run(rng, habit)) for _ in range(count)])
        left -= count
    return batches


def draw_starts(rng: np.random.Generator, count: int, span: float, crowd: Crowd) -> list[float]:
    """Draw the times of batches, by hour and weekday; a share of them falls on consecutive days in the middle."""
    rush = int(count * crowd.rush)
    first = math.floor(span / 2 / DAY) * DAY
    more = draw_arrivals(rng, rush, min(crowd.rush_days * DAY, span))
    return sorted([*draw_arrivals(rng, count - rush, span), *(first + at for at in more)])


def _trace(jobs: Sequence[Job], machine: Machine, crowd: Crowd) -> Trace:
    """Returns the jobs as a log without waits."""
    first = jobs[0][0] // 60 * 60
    columns = {
        "submit_time": [at - first for at, *_ in jobs],
        "run_time": [run for _, _, run, _ in jobs],
        "status": [status for *_, status in jobs],
    }
    habits = [habit for _, habit, _, _ in jobs]
    words = {"user_id": "user", "account": "account", "job_name": "name", "partition_id": "partition"}
    numbers = {
        "req_procs": "procs",
        "alloc_procs": "procs",
        "req_gpus": "gpus",
        "req_mem_kib": "mem_kib",
        "req_time": "limit_s",
    }
    columns |= {name: [getattr(habit, kept) for habit in habits] for name, kept in {**words, **numbers}.items()}
    if machine.qos:
        columns["qos"] = [machine.qos[0].name] * len(jobs)
    info = LogInfo(
        source="(synthetic)", format="synthetic", unix_start=crowd.unix_start + first, timezone="UTC",
        max_procs=float(machine.cpus), max_procs_source="header", memory_per="job",
    )  # fmt: skip
    return Trace.from_arrays(columns, info)


SEED = 55
CROWD = Crowd()
PLACE = Path(__file__).parent


def cluster_path() -> Path:
    """The path of the log: a CSV file, which does not contain the machine's size."""
    return PLACE / "cluster.csv.gz"


def cluster_machine() -> Machine:
    """The machine of the log: 10 nodes with memory, 2 of them with GPUs, two partitions, and limits for each user."""
    place = PLACE / "cluster.toml"
    return read_machine_toml(place.read_text(encoding="utf-8"), Names(), str(place))


def cluster_workload() -> Trace:
    """Generate the log again from its seed."""
    return synthesize_on(np.random.default_rng(SEED), cluster_machine(), CROWD)


if __name__ == "__main__":
    write_by_ending(cluster_workload(), sys.argv[1])
