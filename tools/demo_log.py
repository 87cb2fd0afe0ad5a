# SPDX-License-Identifier: Apache-2.0
"""The demo's small workload: users who repeat programs in sessions, time limits with a margin, days and weeks.

`python -m tools.demo_log FILE.swf.gz` generates the log that comes with batchcast (`batchcast.trace.source.demo_path`).
The rules are made by hand and not fitted to any log. Each part (people, sessions, sizes, run times, limits, arrivals)
is a function of its own. The waits come from a simulated schedule.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from batchcast.errors import UsageError
from batchcast.simulation import Schedule
from batchcast.simulation.policy import Policy
from batchcast.simulation.simulate import simulate
from batchcast.table import LogInfo, Trace
from batchcast.trace.write import write_by_ending

SEED = 55

HOUR, WEEK = 3600.0, 7 * 86400.0
ROUND_LIMITS = tuple(60.0 * minutes for minutes in (5, 10, 15, 30)) + tuple(
    HOUR * hours for hours in (1, 2, 3, 4, 6, 8, 12, 18, 24, 36, 48)
)
SHORT_QUEUE_LIMIT = 2 * HOUR
SESSION_S = 2 * HOUR  # most work of one session, in seconds of the whole machine
_DAY = (3, 2, 2, 2, 2, 2, 3, 5, 9, 13, 14, 13, 11, 13, 14, 14, 13, 11, 8, 7, 6, 6, 5, 4)  # submissions by local hour
_WEEKEND = 0.35


@dataclass(frozen=True, slots=True)
class Site:
    """The parameters of a workload: numbers of jobs and users, processors, and the load by the jobs that run."""

    jobs: int = 5000
    users: int = 60
    procs: int = 256
    load: float = 0.78
    cancelled: float = 0.02
    unix_start: float = 1767571200.0  # Monday 2026-01-05 00:00 UTC
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        if self.jobs < 1 or self.users < 1 or self.procs < 1 or not 0 < self.load < 1 or not 0 <= self.cancelled < 1:
            raise UsageError("a site needs jobs, users and processors of at least 1, load and cancelled below 1")


SITE = Site()


@dataclass(frozen=True, slots=True)
class Repeated:
    """A kind of job that is repeated: median run time and spread (log-normal), size, time limit, memory, failures."""

    median_s: float
    sigma: float
    procs: int
    limit_s: float
    mem_kib: float
    failure: float


@dataclass(frozen=True, slots=True)
class App(Repeated):
    """A program as one user runs it."""

    number: int


@dataclass(frozen=True, slots=True)
class Person:
    """A user: activity, length of sessions, pauses between jobs, and programs."""

    number: int
    group: int
    activity: float
    session_jobs: float
    pause_s: float
    apps: tuple[App, ...]


def synthesize(rng: np.random.Generator, site: Site = Site()) -> Trace:
    """Generate a workload with waits: the jobs are drawn, and then scheduled by EASY with the users' time limits.

    A session of a user mostly repeats one program with one request. Run times are log-normal around the program's
    median; some jobs fail early, and no job exceeds its time limit. A time limit is a guess with a margin, rounded up
    to a value that people use. The rate of submissions depends on the hour and the day of the week. The time span is
    chosen so that the jobs use the share `site.load` of the machine. Some of the jobs that would have waited are
    withdrawn from the queue instead. Only `rng.random` is used, so a seed gives the same workload with every version of
    NumPy. O(jobs log jobs).

    >>> log = synthesize(np.random.default_rng(1), Site(jobs=50, users=4, procs=32))
    >>> len(log), log.info.max_procs, bool((log.run_time[~np.isnan(log.run_time)] <= log.req_time.max()).all())
    (50, 32.0, True)
    """
    people = [draw_person(rng, k + 1, site) for k in range(site.users)]
    sessions = draw_sessions(rng, people, site.jobs, most=SESSION_S * site.procs)
    jobs = [job for session in sessions for job in session]
    area = sum(job[2].procs * job[3] for job in jobs)
    span = area / (site.procs * site.load)
    submits = [
        start + after
        for session, start in zip(sessions, draw_arrivals(rng, len(sessions), span))
        for after in np.cumsum([job[1] for job in session]).tolist()
    ]
    trace = _trace(jobs, submits, site)
    return with_waits(rng, trace, site.cancelled, lambda log: simulate(log, Policy(), "requested", total=site.procs))


def demo_workload() -> Trace:
    """Generate the demo log again from its seed."""
    return synthesize(np.random.default_rng(SEED), SITE)


def draw_person(rng: np.random.Generator, number: int, site: Site) -> Person:
    """Draw user `number`. Users with high numbers submit less, because a few people submit most jobs of a site."""
    apps = tuple(draw_app(rng, 10 * number + k, site) for k in range(1 + int(3 * rng.random())))
    return Person(
        number=number,
        group=1 + int(rng.random() * max(site.users // 5, 1)),
        activity=number**-0.6,
        session_jobs=2 + 10 * rng.random() ** 2,
        pause_s=30.0 * 60.0 ** rng.random(),
        apps=apps,
    )


def draw_app(rng: np.random.Generator, number: int, site: Site) -> App:
    """Draw a program: heavy-tailed medians (a minute to six hours), sizes in powers of two, a padded limit."""
    median = 60.0 * 360.0 ** rng.random()
    sigma = 0.15 + 0.75 * rng.random() ** 2
    widest = max(int(math.log2(site.procs)) - 1, 0)
    procs = 2 ** min(int(rng.random() ** 1.3 * (widest + 1)), widest)
    padding = 1.2 * 10.0 ** rng.random()
    return App(
        number=number,
        median_s=median,
        sigma=sigma,
        procs=procs,
        limit_s=round_up(median * math.exp(sigma) * padding),
        mem_kib=1048576.0 * 2 ** int(4 * rng.random()),
        failure=0.02 + 0.12 * rng.random() ** 2,
    )


def draw_sessions(
    rng: np.random.Generator, people: Sequence[Person], jobs: int, most: float
) -> list[list[tuple[Person, float, App, float, str]]]:
    """Draw sessions until there are enough jobs. Each job is (user, pause before it, program, run time, status).

    A session uses at most about `most` processor-seconds, because people submit fewer large jobs at once.
    """
    sessions: list[list[tuple[Person, float, App, float, str]]] = []
    weights = np.cumsum([person.activity for person in people])
    left = jobs
    while left > 0:
        who = people[int(np.searchsorted(weights, rng.random() * weights[-1], side="right"))]
        count = min(1 + int(-math.log(1.0 - rng.random()) * who.session_jobs), left)
        app = who.apps[int(rng.random() * len(who.apps))]
        count = min(count, max(int(most / (app.procs * app.median_s)), 1))
        session: list[tuple[Person, float, App, float, str]] = []
        for _ in range(count):
            if rng.random() < 0.1:  # a user sometimes runs another program within a session
                app = who.apps[int(rng.random() * len(who.apps))]
            pause = -math.log(1.0 - rng.random()) * who.pause_s if session else 0.0
            session.append((who, float(round(pause)), app, *draw_run(rng, app)))
        sessions.append(session)
        left -= count
    return sessions


def draw_run(rng: np.random.Generator, app: Repeated) -> tuple[float, str]:
    """Draw a run time in whole seconds and its end: failed early, killed at the limit, or completed."""
    if rng.random() < app.failure:
        return float(max(round(min(app.median_s, 300.0) * rng.random() ** 2), 1)), "failed"
    run = float(max(round(app.median_s * math.exp(app.sigma * draw_normal(rng))), 1))
    return (app.limit_s, "timeout") if run >= app.limit_s else (run, "completed")


def draw_normal(rng: np.random.Generator) -> float:
    """Draw a standard normal number (Box & Muller 1958)."""
    return math.sqrt(-2.0 * math.log(1.0 - rng.random())) * math.cos(2.0 * math.pi * rng.random())


def draw_arrivals(rng: np.random.Generator, count: int, span: float) -> list[float]:
    """Draw ascending submit times in the span; their rate depends on the hour of the day and the day of the week."""
    hours = np.arange(math.ceil(span / HOUR))
    rate = np.array(_DAY, dtype=float)[hours % 24] * np.where(hours // 24 % 7 >= 5, _WEEKEND, 1.0)
    rate[-1:] *= span / HOUR - (len(hours) - 1)
    reached = np.concatenate([[0.0], np.cumsum(rate)])
    drawn = sorted(rng.random() * float(reached[-1]) for _ in range(count))
    return [float(math.floor(np.interp(u, reached, np.arange(len(reached))) * HOUR)) for u in drawn]


def round_up(seconds: float) -> float:
    """Return the smallest usual time limit that is at least `seconds`, at most the longest usual limit.

    >>> round_up(3700.0), round_up(1e9)
    (7200.0, 172800.0)
    """
    return next((limit for limit in ROUND_LIMITS if limit >= seconds), ROUND_LIMITS[-1])


def _trace(jobs: list[tuple[Person, float, App, float, str]], submits: list[float], site: Site) -> Trace:
    order = sorted(range(len(jobs)), key=lambda k: (submits[k], k))
    rows = [(submits[k], *jobs[k]) for k in order]
    first = rows[0][0] // 60 * 60
    columns = {
        "submit_time": [row[0] - first for row in rows],
        "run_time": [row[4] for row in rows],
        "alloc_procs": [row[3].procs for row in rows],
        "req_procs": [row[3].procs for row in rows],
        "req_time": [row[3].limit_s for row in rows],
        "req_mem_kib": [row[3].mem_kib for row in rows],
        "status": [row[5] for row in rows],
        "user_id": [row[1].number for row in rows],
        "group_id": [row[1].group for row in rows],
        "app_id": [row[3].number for row in rows],
        "queue_id": [1 if row[3].limit_s <= SHORT_QUEUE_LIMIT else 2 for row in rows],
        "partition_id": [1] * len(rows),
    }
    info = LogInfo(
        source="(synthetic)",
        format="synthetic",
        unix_start=site.unix_start + first,
        timezone=site.timezone,
        max_procs=float(site.procs),
        max_procs_source="header",
        max_nodes=float(site.procs),
        header={"Computer": "synthetic", "Note": "made by batchcast.trace.synth: no real machine, no real people"},
        names={"queue_id": {1: "short", 2: "long"}, "partition_id": {1: "all"}},
        memory_per="processor",
    )
    return Trace.from_arrays(columns, info)


def with_waits(
    rng: np.random.Generator, trace: Trace, cancelled: float, simulate: Callable[[Trace], Schedule]
) -> Trace:
    """Return the jobs with the waits of a schedule; some of the waiting jobs are withdrawn from the queue instead."""
    first, wait = simulate(trace), np.zeros(len(trace))
    wait[first.rows] = first.wait_time
    leaves = np.array([rng.random() for _ in range(len(trace))]) < cancelled
    waited = np.floor(wait * np.array([rng.random() for _ in range(len(trace))]))
    leaves &= waited >= 60
    stays = trace.with_columns({"run_time": np.where(leaves, np.nan, trace.run_time)})
    schedule = simulate(stays)
    waited[schedule.rows] = schedule.wait_time
    status = np.array(trace.nominal("status").decode(), dtype=object)
    status[leaves] = "cancelled"
    columns = {name: stays.column(name) for name in stays.names}
    alloc = np.where(leaves, np.nan, trace.number("alloc_procs"))
    return Trace.from_arrays(
        {**columns, "wait_time": waited, "alloc_procs": alloc, "status": status.tolist()}, trace.info
    )


if __name__ == "__main__":
    write_by_ending(demo_workload(), sys.argv[1])
