# SPDX-License-Identifier: Apache-2.0
"""A synthetic log: jobs drawn by the model of Lublin & Feitelson (2003), time limits by the model of Tsafrir et al.
(2005), and users with applications.

Users run applications in sessions. A log that is larger than memory is made block by block.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ...errors import UsageError
from ...table import LogInfo, Nominal, Trace
from .models import (
    ALL,
    BATCH,
    INTERACTIVE,
    Kind,
    draw_habits,
    draw_points,
    draw_requests,
    draw_run_times,
    draw_sizes,
    to_clock,
)

SESSION_JOBS = 8.0  # mean number of jobs in a session, before SESSION_HOURS shortens sessions of large jobs
SESSION_HOURS = 1.0  # maximum work of one session, in hours of the whole machine
APPLICATION_HOURS = 6.0  # maximum work of one application, in hours of the whole machine
PAUSE_S = 600.0  # mean pause between two jobs of a session, in seconds
LIFETIME_DAYS = 30.0  # mean time from an application's first session to its later sessions, in days
FEWEST, TAIL = 3.0, 1.2  # Pareto distribution of the number of jobs of an application: smallest value and exponent
ACTIVITY = 0.9  # Zipf exponent of the users' activity


class Applications(NamedTuple):
    """Jobs in the order of their applications: the row numbers `order`, and the application `number` (from 0) of each
    row in it."""

    order: np.ndarray
    number: np.ndarray


def group_jobs(
    rng: np.random.Generator, sizes: np.ndarray, kinds: np.ndarray, runs: np.ndarray, spread: float, procs: int
) -> Applications:
    """Group jobs of one size and similar run time as the runs of one application.

    The function sorts jobs by kind, by size, and by the logarithm of run time plus normal noise with the standard
    deviation `spread`. The sorted list is cut into applications. The applications' numbers of jobs are
    Pareto-distributed, and the jobs of one application use at most six hours of the whole machine. Within an
    application, ln run times differ by about `spread`. O(n log n).

    >>> sizes, kinds, runs = np.array([1, 2, 2, 1]), np.zeros(4), np.array([5.0, 9.0, 9.0, 6.0])
    >>> apps = group_jobs(np.random.default_rng(1), sizes, kinds, runs, 0.5, 4)
    >>> sorted(apps.order.tolist()), bool(apps.number[0] != apps.number[-1])
    ([0, 1, 2, 3], True)
    """
    noisy = np.log(runs) + rng.normal(0.0, spread, len(runs)) if spread else np.log(runs)
    order = np.lexsort((noisy, sizes, kinds))
    counts = np.ceil(FEWEST * (1.0 + rng.pareto(TAIL, len(runs) // 3 + 2))).clip(max=max(len(runs) / 50, 1.0))
    first = np.zeros(len(runs), bool)
    ends = np.cumsum(counts).astype(np.int64)
    first[ends[ends < len(runs)]] = True
    first[1:] |= (np.diff(sizes[order]) != 0) | (np.diff(kinds[order]) != 0)
    before = np.cumsum(sizes[order] * runs[order])
    begins = np.flatnonzero(first | (np.arange(len(runs)) == 0))
    within = before - np.repeat(before[begins], np.diff([*begins, len(runs)]))
    first[1:] |= np.diff(within // (APPLICATION_HOURS * 3600.0 * procs)) > 0
    number = np.cumsum(first)
    shuffled = np.lexsort((rng.random(len(runs)), number))
    return Applications(order[shuffled], number)


def draw_users(rng: np.random.Generator, apps: int, users: int) -> np.ndarray:
    """Draw a user for each application: user numbers from 1, int64 (apps,). Users with small numbers are drawn more
    often (Zipf's law).
    """
    weights = np.cumsum(np.arange(1, users + 1) ** -ACTIVITY)
    return np.asarray(np.searchsorted(weights, rng.random(apps) * weights[-1], side="right") + 1, np.int64)


def draw_turns(
    rng: np.random.Generator, apps: Applications, sizes: np.ndarray, runs: np.ndarray, span: float, procs: int
) -> np.ndarray:
    """Draw the order of submission: the rank of each job among all arrivals, a permutation (n,) in the order of `apps`.

    An application begins at a random time of the span. The later sessions of an application follow over some weeks, and
    the jobs of one session follow each other within minutes. A session uses at most one hour of the whole machine,
    because people submit fewer large jobs at once. `sizes` and `runs` are in the order of `apps`. O(n log n).
    """
    n = len(runs)
    begins = np.flatnonzero(np.diff(apps.number, prepend=-1))
    area = np.add.reduceat(sizes * runs, begins)
    count = np.diff([*begins, n])
    most = np.maximum(SESSION_HOURS * 3600.0 * procs / np.maximum(area / count, 1.0), 1.0).astype(np.int64)
    within = np.arange(n) - begins[apps.number]
    opens = (rng.random(n) < 1.0 / SESSION_JOBS) | (within % most[apps.number] == 0)
    session = np.cumsum(opens) - 1
    app_of = apps.number[opens]
    starts = rng.random(len(begins))[app_of] * span
    starts += rng.exponential(min(LIFETIME_DAYS * 86400.0, span / 4), len(starts)) * (np.diff(app_of, prepend=-1) == 0)
    pauses = np.cumsum(rng.exponential(PAUSE_S, n))
    when = starts[session] + pauses - pauses[opens][session]
    return np.argsort(np.argsort(when, kind="stable"))  # the second sort inverts the permutation


KINDS = {"together": (ALL,), "apart": (INTERACTIVE, BATCH)}
WAITS = ("easy", "none")
GROUP_USERS = 8


@dataclass(frozen=True, slots=True)
class Recipe:
    """The parameters of a synthetic log. UsageError for impossible values.

    `load` is sum(procs * run) / (machine * time from the first to the last submission); it is above 1 for an overloaded
    machine. `users` defaults to twice the square root of the number of jobs. With the setting `kinds` = `together`, all
    jobs are drawn from the published model for jobs of unknown kind. With `kinds` = `apart`, interactive jobs (queue 0)
    and batch jobs (queue 1) are drawn from separate models. `longest` is the longest time limit in seconds. `killed` is
    approximately the share of jobs that are killed at their time limit. `spread` is the standard deviation of ln run
    times in one application. `waits` says whether waits are simulated by EASY with the time limits; otherwise they are
    unknown.
    """

    jobs: int = 10_000
    procs: int = 128
    load: float = 0.8
    users: int | None = None
    kinds: str = "together"
    longest: float = 172800.0
    killed: float = 0.1
    spread: float = 0.6
    waits: str = "easy"
    unix_start: float = 1767571200.0  # Monday 2026-01-05 00:00 UTC

    def __post_init__(self) -> None:
        for name, value, ok, accepted in (
            ("jobs", self.jobs, 2 <= self.jobs <= 100_000_000, "2 to 100,000,000"),
            ("procs", self.procs, 1 <= self.procs <= 2**29, "1 to 2^29"),
            ("load", self.load, 0 < self.load <= 100, "above 0, at most 100"),
            ("users", self.users, self.users is None or self.users >= 1, "1 or more"),
            ("kinds", self.kinds, self.kinds in KINDS, ", ".join(KINDS)),
            ("longest", self.longest, 60 <= self.longest < math.inf, "a minute or more"),
            ("killed", self.killed, 0 <= self.killed <= 0.5, "0 to 0.5"),
            ("spread", self.spread, 0 <= self.spread <= 10, "0 to 10"),
            ("waits", self.waits, self.waits in WAITS, ", ".join(WAITS)),
        ):
            if not ok:
                raise UsageError(f"--{name}: not {value!r} (accepted: {accepted})")

    @property
    def people(self) -> int:
        """Maximum number of users in a synthetic log."""
        return self.users or max(round(2.0 * math.sqrt(self.jobs)), 1)


def make_log(rng: np.random.Generator, recipe: Recipe = Recipe()) -> Trace:
    """Generate a log of `recipe.jobs` jobs, sorted by submission; the load is exact up to whole seconds.

    Sizes, run times and gaps between arrivals are drawn job by job from the published models. The jobs are then
    reordered so that users repeat applications in sessions. Reordering changes no distribution, but run times above
    their time limit are cut. To reach the load, arrivals are stretched on a clock on which every hour is equally busy,
    so that the daily cycle stays. The model has no weekly cycle. O(n log n), about 3 us per job.

    >>> log = make_log(np.random.default_rng(1), Recipe(jobs=500, procs=64, load=0.7))
    >>> span = float(log.submit_time[-1] - log.submit_time[0])
    >>> len(log), round(float((log.run_time * log.procs()).sum()) / span / 64, 2)
    (500, 0.7)
    >>> bool((log.run_time <= log.req_time).all())
    True
    """
    kinds = KINDS[recipe.kinds]
    of, points = _arrivals(rng, kinds, recipe.jobs)
    sizes, runs = np.empty(recipe.jobs, np.int64), np.empty(recipe.jobs)
    for number, kind in enumerate(kinds):
        mine = of == number
        sizes[mine] = draw_sizes(rng, kind, int(mine.sum()), recipe.procs)
        runs[mine] = draw_run_times(rng, kind, sizes[mine])
    apps = group_jobs(rng, sizes, of, runs, recipe.spread, recipe.procs)
    sizes, runs, kind_of_job = sizes[apps.order], runs[apps.order], of[apps.order]
    requests = _requests(rng, apps.number, runs, recipe)[apps.number]
    killed = runs > requests
    runs = np.minimum(runs, requests)
    users = draw_users(rng, int(apps.number[-1]) + 1, recipe.people)[apps.number]
    submits = _scaled(kinds, of, points, float((sizes * runs).sum()) / (recipe.procs * recipe.load))
    turns = draw_turns(rng, apps, sizes, runs, float(submits[-1] - submits[0]), recipe.procs)
    drawn = _Drawn(sizes, runs, requests, killed, users, apps.number)
    return _log(recipe, submits, of, drawn.take(_rows(turns, kind_of_job, of)))


def _arrivals(rng: np.random.Generator, kinds: tuple[Kind, ...], jobs: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw the first arrivals of all kinds: the kind of each, and its time on the clock of equally busy hours."""
    points = [draw_points(rng, kind, jobs) for kind in kinds]
    of = np.repeat(np.arange(len(kinds)), jobs)
    first = np.argsort(np.concatenate([to_clock(k, p) for k, p in zip(kinds, points)]), kind="stable")[:jobs]
    return of[first], np.concatenate(points)[first]


def _scaled(kinds: tuple[Kind, ...], of: np.ndarray, points: np.ndarray, span: float) -> np.ndarray:
    """Return submit times in whole seconds, stretched so that `span` seconds lie between the first and the last."""
    ends = [(kinds[k], points[of == k][[0, -1]]) for k in np.unique(of)]

    def reached(stretch: float) -> float:
        firsts, lasts = zip(*(to_clock(kind, stretch * pair).tolist() for kind, pair in ends))
        return float(max(lasts) - min(firsts))

    low = high = 1.0
    while reached(high) < span:
        high *= 2.0
    while reached(low) > span:
        low /= 2.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if reached(middle) < span else (low, middle)
    submits = np.empty(len(points))
    for number, kind in enumerate(kinds):
        submits[of == number] = np.floor(to_clock(kind, high * points[of == number]))
    order = np.argsort(submits, kind="stable")
    of[:] = of[order]
    return submits[order]


def _requests(rng: np.random.Generator, app: np.ndarray, runs: np.ndarray, recipe: Recipe) -> np.ndarray:
    """Draw the time limit of each application: enough for all its jobs or, in some applications, for about half of
    them."""
    ascending = np.lexsort((runs, app))
    begins = np.flatnonzero(np.diff(app, prepend=-1))
    counts = np.diff([*begins, len(app)])
    short = rng.random(len(begins)) < 2.0 * recipe.killed
    needed = runs[ascending][begins + np.where(short, (counts - 1) // 2, counts - 1)]
    values, shares = draw_habits(rng, needed, counts, recipe.longest)
    return draw_requests(rng, needed, counts, values, shares, short)


def _rows(turns: np.ndarray, kind_of_job: np.ndarray, kind_of_arrival: np.ndarray) -> np.ndarray:
    """Return the job of each arrival: jobs of a kind are assigned to the arrivals of this kind in the order `turns`."""
    by_turn = np.argsort(turns)  # inverts the permutation
    rows = np.empty(len(turns), np.int64)
    for number in np.unique(kind_of_arrival):
        rows[kind_of_arrival == number] = by_turn[kind_of_job[by_turn] == number]
    return rows


class _Drawn(NamedTuple):
    """The drawn values of each job (n,); users and applications are numbers. `killed` says whether the time limit cut
    the job."""

    sizes: np.ndarray
    runs: np.ndarray
    requests: np.ndarray
    killed: np.ndarray
    users: np.ndarray
    apps: np.ndarray

    def take(self, rows: np.ndarray) -> _Drawn:
        """Return the jobs in another order."""
        return _Drawn(*(column[rows] for column in self))


def _log(recipe: Recipe, submits: np.ndarray, of: np.ndarray, drawn: _Drawn) -> Trace:
    """Convert the drawn jobs to a trace, one job at each arrival, with waits simulated by EASY if requested."""
    day = submits[0] // 86400.0 * 86400.0
    columns = {
        "submit_time": submits - day,
        "run_time": drawn.runs,
        "alloc_procs": drawn.sizes.astype(float),
        "req_procs": drawn.sizes.astype(float),
        "req_time": drawn.requests,
        "status": Nominal(np.where(drawn.killed, 1, 0).astype(np.int32), ("completed", "timeout")),
        "user_id": Nominal.encode(drawn.users),
        "group_id": Nominal.encode((drawn.users - 1) // GROUP_USERS + 1),
        "app_id": Nominal.encode(drawn.apps + 1),
    }
    if recipe.kinds == "apart":
        columns["queue_id"] = Nominal.encode(of)
    info = LogInfo(
        source="(synthetic)",
        format="synthetic",
        unix_start=recipe.unix_start,
        max_procs=float(recipe.procs),
        max_procs_source="header",
        header=_header(recipe),
        names={"queue_id": {0: "interactive", 1: "batch"}} if recipe.kinds == "apart" else {},
    )
    trace = Trace.from_arrays(columns, info)
    if recipe.waits == "none":
        return trace
    from ...simulation.policy import Policy
    from ...simulation.simulate import simulate

    wait = simulate(trace, Policy(), "requested", total=recipe.procs).wait_time
    return trace.with_columns({"wait_time": wait})


def _header(recipe: Recipe) -> dict[str, str]:
    """Return the header lines that describe how the log was generated."""
    asked = f"jobs {recipe.jobs}, procs {recipe.procs}, load {recipe.load:g}, at most {recipe.people} users"
    more = f"kinds {recipe.kinds}, longest {recipe.longest:g} s, killed {recipe.killed:g}, spread {recipe.spread:g}"
    return {
        "Computer": "synthetic: no real machine, no real people",
        "Model": "Lublin & Feitelson 2003 (sizes, run times, arrivals); Tsafrir, Etsion & Feitelson 2005 (requests)",
        "Parameters": f"{asked}, {more}, waits {recipe.waits}",
    }


BLOCK = 1_000_000
DAY = 86400.0


def make_blocks(seed: int, recipe: Recipe, block: int = BLOCK) -> Iterator[Trace]:
    """Yield the log of a recipe in blocks of `block` jobs. Each block begins on the day after the block before it.

    All blocks have the same users; application numbers start again in each block. Each block has the recipe's load, and
    separate random numbers, which the seed determines. Waits are simulated on a machine that is empty at the beginning
    of each block. If a recipe fits into one block, the result equals the log of `make_log`.

    >>> blocks = list(make_blocks(1, Recipe(jobs=500, procs=64), 200))
    >>> [len(each) for each in blocks], [int(each.job_id[0]) for each in blocks]
    ([200, 200, 100], [1, 201, 401])
    >>> all(a.submit_time[-1] < b.submit_time[0] for a, b in zip(blocks, blocks[1:]))
    True
    """
    if recipe.jobs <= block:
        yield make_log(np.random.default_rng(seed), recipe)
        return
    done, since = 0, 0.0
    while done < recipe.jobs:
        jobs = min(block, recipe.jobs - done)
        jobs += recipe.jobs - done - jobs == 1  # a log needs at least two jobs
        log = make_log(np.random.default_rng([seed, done]), replace(recipe, jobs=jobs, users=recipe.people))
        columns = {name: log.column(name) for name in log.names}
        columns |= {"job_id": log.job_id + done, "submit_time": log.submit_time + since}
        yield Trace(columns, log.info, is_sorted=True)
        done += jobs
        since += (math.floor(float(log.submit_time[-1]) / DAY) + 1) * DAY
