# SPDX-License-Identifier: Apache-2.0
"""Synthetic logs, drawn from published models of sizes, run times, arrivals and time limits (`make_log`).

Sizes, run times and arrivals of rigid jobs follow Lublin & Feitelson, JPDC 63(11), 2003. The constants of the model
come from the authors' program (U. Lublin, "A Workload Model for Parallel Computer Systems", Parallel Workloads
Archive). `ALL` is the program's model for jobs of unknown kind; `BATCH` and `INTERACTIVE` are its models for the two
kinds. Time limits follow Tsafrir, Etsion & Feitelson (2005). Memory requests follow no published model (`with_memory`).

Users run applications in sessions. `make_blocks` generates a log that is larger than memory block by block.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..columns import OUT_OF_MEMORY
from ..errors import UsageError
from ..table import LogInfo, Nominal, Trace, Values

SLOTS = 48  # half hours of a day
SLOT_S = 1800.0
DAY_STARTS = 11  # the first slot of the model's day: 5:30
MOST_LOG_RUN = 12.0  # maximum run time: e^12 s, about two days
MOST_LOG_GAP = 13.0  # maximum gap: e^13 s, about five days


@dataclass(frozen=True, slots=True)
class Kind:
    """The model parameters of one kind of jobs, in the order of Lublin & Feitelson's paper; gamma distributions are
    given as (shape, scale)."""

    serial: float  # share of jobs on one processor
    power_of_two: float  # share of all jobs rounded to a power of two
    smallest: float  # log2 of the smallest size of a parallel job
    below_widest: float  # end of the first uniform distribution of log2 size, in octaves below the widest job
    narrower: float  # log2 of the widest job, in octaves below the machine's size
    first_stage: float  # share of the first uniform distribution
    short: tuple[float, float]  # the two gamma distributions of ln run time: short and long jobs
    long: tuple[float, float]
    short_slope: float  # share of short jobs: short_slope * procs + short_share
    short_share: float
    gap: tuple[float, float]  # ln gap between arrivals at the mean rate
    day: tuple[float, float]  # arrivals over the slots of a day


ALL = Kind(0.244, 0.576, 0.8, 2.5, 0.0, 0.86, (4.2, 0.94), (312.0, 0.03), -0.0054, 0.78,
           (10.2303 * 1.0225, 0.4871), (8.1737, 3.9631))  # fmt: skip
BATCH = Kind(0.2927, 0.6686, 1.2, 2.0, 0.0, 0.875, (6.57, 0.823), (639.1, 0.0156), -0.003, 0.6986,
             (6.0415 * 1.0519, 0.8531), (6.1271, 5.2740))  # fmt: skip
INTERACTIVE = Kind(0.1541, 0.625, 1.0, 2.5, 1.5, 0.705, (3.8351, 0.6605), (7.073, 0.6856), -0.0118, 0.9156,
                   (6.5510 * 0.9797, 0.6621), (8.9186, 3.6680))  # fmt: skip


def draw_sizes(rng: np.random.Generator, kind: Kind, count: int, procs: int) -> np.ndarray:
    """Draw the processors of `count` jobs on a machine of `procs`, int64 (count,): serial, a power of two, or any.

    log2 of a parallel job's size has a two-stage uniform distribution. For some jobs, the size is rounded to a power of
    two. The published constants are for 128 nodes. On other machines, the widest job and the end of the first stage
    keep their distance from log2 of the machine's size, as the authors advise. Job sizes after rounding are limited to
    the machine's size. O(count).

    >>> sizes = draw_sizes(np.random.default_rng(1), ALL, 10_000, 128)
    >>> sizes.min(), sizes.max(), 0.23 < (sizes == 1).mean() < 0.26
    (np.int64(1), np.int64(128), np.True_)
    """
    widest = max(math.log2(procs) - kind.narrower, 0.0)
    low = min(kind.smallest, widest)
    middle = max(widest - kind.below_widest, low)
    what, stage, within = rng.random((3, count))
    first = stage <= kind.first_stage
    octave = np.where(first, low, middle) + within * np.where(first, middle - low, widest - middle)
    octave = np.where(what <= kind.serial + kind.power_of_two, np.floor(octave + 0.5), octave)
    sizes = np.where(what <= kind.serial, 1.0, np.floor(2.0**octave + 0.5))
    return np.asarray(np.minimum(sizes, procs), np.int64)


def draw_run_times(rng: np.random.Generator, kind: Kind, sizes: np.ndarray) -> np.ndarray:
    """Draw run times of jobs with the given sizes, whole seconds from 1 to e^12, float64 (n,).

    ln run time has a mixture of two gamma distributions (hyper-gamma). The share of the distribution for short jobs is
    smaller for larger jobs, and is limited to [0, 1]. Run times above the maximum are drawn again from the mixture.
    O(n).

    >>> runs = draw_run_times(np.random.default_rng(1), ALL, np.array([1, 1, 64]))
    >>> bool((runs >= 1).all()), bool((runs == np.floor(runs)).all())
    (True, True)
    """
    share = np.clip(kind.short_slope * sizes + kind.short_share, 0.0, 1.0)
    logs = np.empty(len(sizes))
    left = np.arange(len(sizes))
    while len(left):
        short = rng.random(len(left)) <= share[left]
        count = int(short.sum())
        drawn = np.empty(len(left))
        drawn[short] = rng.gamma(*kind.short, count)
        drawn[~short] = rng.gamma(*kind.long, len(left) - count)
        logs[left] = drawn
        left = left[drawn > MOST_LOG_RUN]
    return np.asarray(np.maximum(np.floor(np.exp(logs)), 1.0))


def draw_points(rng: np.random.Generator, kind: Kind, count: int) -> np.ndarray:
    """Draw arrivals on a clock on which every hour is equally busy: ascending seconds, float64 (count,). O(count)."""
    gaps = rng.gamma(*kind.gap, count)
    while (over := gaps > MOST_LOG_GAP).any():
        gaps[over] = rng.gamma(*kind.gap, int(over.sum()))
    return np.cumsum(np.exp(gaps))


def to_clock(kind: Kind, points: np.ndarray) -> np.ndarray:
    """Convert arrivals of `draw_points` to seconds since a midnight; each half hour then has its share of jobs.

    O(n log 48).

    >>> to_clock(ALL, np.array([0.0, 86400.0])).tolist()
    [0.0, 86400.0]
    """
    day = SLOTS * SLOT_S
    paid = np.concatenate([[0.0], np.cumsum(day_weights(kind))]) * SLOT_S
    paid *= day / paid[-1]
    days = np.floor(points / day)
    return np.asarray(days * day + np.interp(points - days * day, paid, np.arange(SLOTS + 1) * SLOT_S))


def day_weights(kind: Kind) -> np.ndarray:
    """Return the relative number of jobs in each half hour of a day from midnight on, mean 1, float64 (48,).

    The weight of a half hour is the gamma distribution's mass around each slot from `DAY_STARTS` on, in the order of
    the day.
    """
    slots = np.arange(DAY_STARTS, DAY_STARTS + SLOTS)
    edges = np.array([gamma_cdf((slot - 0.5) / kind.day[1], kind.day[0]) for slot in (*slots, slots[-1] + 1)])
    weights = np.empty(SLOTS)
    weights[(slots - 1) % SLOTS] = np.diff(edges)
    return np.asarray(weights / weights.mean())


def gamma_cdf(x: float, shape: float) -> float:
    """Return the regularised lower incomplete gamma function P(shape, x), by its series (DLMF 8.11.4); x >= 0.

    >>> round(gamma_cdf(2.0, 1.0), 12) == round(1 - math.exp(-2.0), 12)
    True
    """
    term = total = 1.0 / shape
    k = 0
    while term > total * 1e-16:
        k += 1
        term *= x / (shape + k)
        total += term
    return total * math.exp(-x + shape * math.log(x) - math.lgamma(shape)) if x > 0 else 0.0


HEAD = 20  # number of popular time limits
HEAD_SHARE = 0.89  # share of jobs that request one of the popular time limits
_MINUTES = (5, 10, 15, 20, 30, 45, 60, 90, 120, 150, 180, 240, 300, 360, 480, 600, 720, 900, 1080, 1440, 2160, 2880)


def popularity(rank: np.ndarray) -> np.ndarray:
    """Return the share of jobs that request the `rank`-th most popular time limit (from 1).

    Each of the ranks 2 to 20 has 14.0491 e^(-0.177531 rank) + 0.462513 percent of the jobs. Ranks 1 to 20
    together have 89 %, so rank 1 has the difference to 89 %. Each rank above 20 has 795.6 rank^-2.267 percent of the
    jobs; these shares are not normalised.

    >>> [round(float(x), 3) for x in popularity(np.array([1, 2, 20, 21]))]
    [0.217, 0.103, 0.009, 0.008]
    """
    head = (14.0491 * np.exp(-0.177531 * np.arange(2, HEAD + 1)) + 0.462513) / 100
    rank = np.asarray(rank)
    first = np.concatenate([[HEAD_SHARE - head.sum()], head])
    tail = 7.956 * np.maximum(rank, 1.0) ** -2.267
    return np.asarray(np.where(rank <= HEAD, first[np.minimum(rank, HEAD) - 1], tail))


def draw_habits(
    rng: np.random.Generator, needed: np.ndarray, jobs: np.ndarray, longest: float
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the time limits that a site's users request: ascending values in seconds up to `longest`, and their shares.

    `needed` and `jobs` (n,) are the run time that each application needs, in seconds, and its number of jobs. The
    number of distinct limits is 0.653566 jobs^0.547761 (the paper's power model), at least 20. Each limit beyond the 20
    popular ones is (a-1)x / (a-x) of the longest limit, where x is its relative rank and a = 1 + 12.1039
    values^-0.6026. All limits are whole minutes.

    Departure from the paper: the paper takes the 20 popular limits from the modelled system. The synthetic log takes
    round values that people use. The order of popularity of the round limits is drawn for each log. The probability of
    a round value is proportional to the number of jobs for which it is the smallest sufficient round value. The longest
    limit is among the three most popular limits. O(n log n).

    >>> rng = np.random.default_rng(1)
    >>> values, shares = draw_habits(rng, rng.random(5_000) * 9999, np.full(5_000, 10), 64800.0)
    >>> len(values) > 200, float(values[-1]), round(float(np.sort(shares)[-20:].sum()), 1)
    (True, 64800.0, 0.9)
    """
    popular = round_values(longest)
    order = _by_demand(rng, popular, needed, jobs)
    count = max(round(0.653566 * int(jobs.sum()) ** 0.547761), HEAD)
    bend = 1.0 + 12.1039 * count**-0.6026
    rank = np.arange(1, count + 1) / count
    times = np.round((bend - 1.0) * rank / (bend - rank) * longest / 60.0) * 60.0
    tail = rng.permutation(np.setdiff1d(times[(times >= 60.0) & (times < longest)], popular))[: count - HEAD]
    head = popularity(np.arange(1, len(popular) + 1))
    rest = popularity(np.arange(HEAD + 1, HEAD + 1 + len(tail)))
    values = np.concatenate([popular[order], tail])
    shares = np.concatenate([head, rest * (1.0 - HEAD_SHARE) / max(rest.sum(), 1e-9)])
    ascending = np.argsort(values)
    return values[ascending], shares[ascending] / shares.sum()


def _by_demand(rng: np.random.Generator, popular: np.ndarray, needed: np.ndarray, jobs: np.ndarray) -> np.ndarray:
    """Draw the order of the popular limits, the most popular first, without replacement, in proportion to demand."""
    demand = np.zeros(len(popular))
    np.add.at(demand, np.minimum(np.searchsorted(popular, needed), len(popular) - 1), jobs)
    drawn = np.argsort(-np.log(demand + 1.0) - rng.gumbel(size=len(popular)))
    drawn = drawn[drawn != len(popular) - 1]
    return np.insert(drawn, min(int(rng.integers(3)), len(drawn)), len(popular) - 1)


def round_values(longest: float) -> np.ndarray:
    """Return up to 20 round time limits in ascending seconds, none above `longest`; `longest` is always included.

    >>> round_values(3600.0)[-3:].tolist(), len(round_values(172800.0))
    ([1800.0, 2700.0, 3600.0], 20)
    """
    below = [60.0 * minutes for minutes in _MINUTES if 60.0 * minutes < longest]
    while len(below) > HEAD - 1:
        below.pop(next(k for k, value in enumerate(below) if value in (2700.0, 9000.0, 54000.0)))
    return np.array([*below, longest])


def draw_requests(
    rng: np.random.Generator,
    needed: np.ndarray,
    jobs: np.ndarray,
    values: np.ndarray,
    shares: np.ndarray,
    short: np.ndarray,
) -> np.ndarray:
    """Draw a time limit for each application (n,): one of `values` that is at least the needed run time, else the
    longest value.

    As in the paper, applications choose in the order of falling need. Each application takes a value that is long
    enough, with a probability proportional to the number of jobs that may still request this value. An application that
    is marked in `short` (n, boolean) gets a limit between half the needed run time and the needed run time, if `values`
    has one.

    Departures from the paper: applications (weighted by `jobs`) choose instead of single jobs, up to 64 applications
    with the same remaining values at once. Because these applications choose together, the published shares of the
    limits are met only approximately. In the paper, no limit is shorter than the needed run time. The call takes
    O(values * n / 64 + n log n) time.

    >>> needed, jobs = np.array([50.0, 200.0, 3000.0]), np.array([5, 1, 1])
    >>> values, short = np.array([60.0, 300.0, 3600.0]), np.array([False, True, False])
    >>> draw_requests(np.random.default_rng(1), needed, jobs, values, np.ones(3) / 3, short)[2]
    np.float64(3600.0)
    """
    left = shares * jobs.sum()
    least = np.minimum(np.searchsorted(values, needed), len(values) - 1)
    half = np.searchsorted(values, needed / 2.0)
    short = short & (half < least)
    taken = np.empty(len(needed))
    reach = np.concatenate([[0.0], np.cumsum(shares)])
    low, high = reach[half[short]], reach[least[short]]
    choice = np.searchsorted(reach, low + rng.random(len(low)) * (high - low), side="right") - 1
    taken[short] = values[choice]
    np.subtract.at(left, choice, jobs[short])
    np.maximum(left, 0.0, out=left)
    order = np.flatnonzero(~short)
    order = order[np.argsort(-least[order], kind="stable")]
    starts = np.flatnonzero(np.diff(least[order], prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(order)]):
        first = int(least[order[start]])
        for part in np.array_split(order[start:end], max(1, (end - start) // 64)):
            open_ = left[first:]
            reach = np.cumsum(open_ if open_.any() else shares[first:])
            choice = first + np.searchsorted(reach, rng.random(len(part)) * reach[-1], side="right")
            taken[part] = values[choice]
            np.subtract.at(left, choice, jobs[part])
            np.maximum(left, 0.0, out=left)
    return taken


CHOICES = 1024.0**2 * np.array([0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0])
"""Requested KiB per processor: powers of two, 128 MiB to 8 GiB."""
MARGINS = (0.9, 1.5, 3.0, 6.0)
SMALLEST, LARGEST = 32.0, 3072.0  # MiB per processor
WITHIN = 0.15  # standard deviation of ln use among jobs of one application


def with_memory(rng: np.random.Generator, trace: Trace) -> Trace:
    """Add requested and used memory, KiB per processor, and jobs that ran out of memory.

    There is no published model, so the function assumes the following. The median use of an application (a user's
    jobs of one size) is drawn log-uniformly from 32 MiB to 3 GiB per processor. The use of single jobs differs from the
    application's median by a log-normal factor (sigma 0.15). Each user has a safety factor of 0.9, 1.5, 3 or 6, and
    requests the next power of two above the median use times this factor. A job that needs more than its request ends
    as out_of_memory, and its recorded use equals the request. O(n log n).

    >>> log = Trace.from_arrays({"submit_time": range(400), "run_time": [60] * 400, "req_procs": [1] * 400,
    ...     "user_id": [k % 7 for k in range(400)], "status": ["completed"] * 400})
    >>> made = with_memory(np.random.default_rng(0), log)
    >>> bool((made.number("used_mem_kib") <= made.number("req_mem_kib")).all()), made.info.memory_per
    (True, 'processor')
    """
    user = trace.nominal("user_id").codes
    keys = np.stack([user, trace.nominal("app_id").codes, np.nan_to_num(trace.procs()).astype(np.int64)])
    kind = np.unique(keys, axis=1, return_inverse=True)[1].ravel()
    usual = np.exp(rng.uniform(np.log(SMALLEST), np.log(LARGEST), kind.max(initial=0) + 1))[kind] * 1024.0
    margin = rng.choice(MARGINS, user.max(initial=0) + 2)[user]
    asked = CHOICES[np.minimum(np.searchsorted(CHOICES, usual * margin), len(CHOICES) - 1)]
    needed = usual * rng.lognormal(0.0, WITHIN, len(trace))
    ran = ~np.isnan(trace.run_time)
    short = ran & (needed > asked)
    columns: dict[str, Values] = {
        "req_mem_kib": np.round(asked),
        "used_mem_kib": np.where(ran, np.round(np.minimum(needed, asked)), np.nan),
        "status": trace.nominal("status").where(short, OUT_OF_MEMORY),
    }
    return trace.with_columns(columns, replace(trace.info, memory_per="processor"))


SESSION_JOBS = 8.0  # mean number of jobs in a session, before SESSION_HOURS shortens sessions of large jobs
SESSION_HOURS = 1.0  # maximum work of one session, in hours of the whole machine
APPLICATION_HOURS = 6.0  # maximum work of one application, in hours of the whole machine
PAUSE_S = 600.0  # mean pause between two jobs of a session, in seconds
LIFETIME_DAYS = 30.0  # mean time from an application's first session to its later sessions, in days
FEWEST, TAIL = 3.0, 1.2  # Pareto distribution of the number of jobs of an application: smallest value and exponent
ACTIVITY = 0.9  # Zipf exponent of the users' activity


class Applications(NamedTuple):
    """Jobs sorted by application: the row numbers `order`, and each row's application `number` (from 0)."""

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
    often (Zipf's law)."""
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
    columns: dict[str, Values] = {
        "run_time": runs,
        "alloc_procs": sizes.astype(float),
        "req_procs": sizes.astype(float),
        "req_time": requests,
        "status": Nominal(killed.astype(np.int32), ("completed", "timeout")),
        "user_id": Nominal.encode(users),
        "group_id": Nominal.encode((users - 1) // GROUP_USERS + 1),
        "app_id": Nominal.encode(apps.number + 1),
    }
    rows = _rows(turns, kind_of_job, of)
    return _log(recipe, submits, of, {name: values.take(rows) for name, values in columns.items()})


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
    """Draw each application's time limit: enough for all its jobs or, in some applications, for about half."""
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


def _log(recipe: Recipe, submits: np.ndarray, of: np.ndarray, jobs: Mapping[str, Values]) -> Trace:
    """Return the jobs as a trace, one job at each submit time, with waits simulated by EASY if requested. `of` is the
    kind of each job."""
    columns = {"submit_time": submits - submits[0] // DAY * DAY, **jobs}
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
    from ..simulation.policy import Policy
    from ..simulation.simulate import simulate

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
        moved = {"job_id": log.job_id + done, "submit_time": log.submit_time + since}
        yield Trace({**log.columns(), **moved}, log.info, is_sorted=True)
        done += jobs
        since += (math.floor(float(log.submit_time[-1]) / DAY) + 1) * DAY
