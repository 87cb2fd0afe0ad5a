# SPDX-License-Identifier: Apache-2.0
"""Requests with the habits of users.

Run times after Tsafrir, Etsion & Feitelson (2005), and memory by what applications hold.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...columns import OUT_OF_MEMORY
from ...table import Nominal, Trace, Values

HEAD = 20  # popular values ...
HEAD_SHARE = 0.89  # ... and the share of jobs that ask for one of them
_MINUTES = (5, 10, 15, 20, 30, 45, 60, 90, 120, 150, 180, 240, 300, 360, 480, 600, 720, 900, 1080, 1440, 2160, 2880)


def popularity(rank: np.ndarray) -> np.ndarray:
    """The share of jobs that ask for the `rank`-th most popular value (from 1), not normalised beyond rank 20.

    Ranks 2..20: 14.0491 e^(-0.177531 rank) + 0.462513 percent; rank 1 what is missing to 89 %; the tail
    795.6 rank^-2.267 percent.

    >>> [round(float(x), 3) for x in popularity(np.array([1, 2, 20, 21]))]
    [0.217, 0.103, 0.009, 0.008]
    """
    head = (14.0491 * np.exp(-0.177531 * np.arange(2, HEAD + 1)) + 0.462513) / 100
    rank = np.asarray(rank)
    first = np.concatenate([[HEAD_SHARE - head.sum()], head])
    return np.asarray(
        np.where(rank <= HEAD, first[np.minimum(rank, HEAD) - 1], 7.956 * np.maximum(rank, 1.0) ** -2.267)
    )


def draw_habits(
    rng: np.random.Generator, needed: np.ndarray, jobs: np.ndarray, longest: float
) -> tuple[np.ndarray, np.ndarray]:
    """The values a site's users ask for, ascending whole minutes up to `longest`, and the share of jobs of each.

    `needed` and `jobs` (n,) are the run time each application needs and its jobs. There are 0.653566 jobs^0.547761
    values (power model), at least 20. The times of those in the tail follow (a-1)x / (a-x) of the longest at relative
    rank x, a = 1 + 12.1039 values^-0.6026. Departure: the paper takes the 20 popular times from the modelled system;
    here they are round values people use. Their order of popularity is drawn anew for each log, each in proportion to
    the jobs that need more than the round value below it and no more than itself, with the longest among the first
    three. O(n log n).

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
    """Places of the popular values, the most popular first: drawn without replacement, in proportion to demand."""
    demand = np.zeros(len(popular))
    np.add.at(demand, np.minimum(np.searchsorted(popular, needed), len(popular) - 1), jobs)
    drawn = np.argsort(-np.log(demand + 1.0) - rng.gumbel(size=len(popular)))
    drawn = drawn[drawn != len(popular) - 1]
    return np.insert(drawn, min(int(rng.integers(3)), len(drawn)), len(popular) - 1)


def round_values(longest: float) -> np.ndarray:
    """Up to 20 round values below or at the longest, ascending seconds; the longest is always one.

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
    """A request for each application, at least what it needs where there is such a value, else the longest; (n,).

    An application of `short` (n, boolean) gets a value from half its need up to just below it, where there is one.

    As the paper assigns: from the longest need down, each takes one of the values still left that are long enough, in
    proportion to how many jobs may still ask for it. Departures: applications, which weigh `jobs`, choose instead of
    single jobs, up to 64 with the same open values at once; so the shares are met nearly, not exactly. The paper has
    no short requests. O(values * n / 64 + n log n).

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
"""KiB a processor that people ask for: powers of two, 128 MiB to 8 GiB."""
MARGINS = (0.9, 1.5, 3.0, 6.0)
SMALLEST, LARGEST = 32.0, 3072.0  # MiB a processor
WITHIN = 0.15  # of ln use among jobs of one application


def with_memory(rng: np.random.Generator, trace: Trace) -> Trace:
    """The log with memory asked and used, KiB a processor, and jobs that ran out of what they asked for.

    Assumed, after no published model: an application (of a user and size) holds a median drawn log-uniformly from
    32 MiB to 3 GiB a processor, its jobs differ by a log-normal factor (sigma 0.15); its user has a margin, 0.9, 1.5, 3
    or 6 times, and asks for the next power of two above the median times that. A job that needs more than it asked ends
    as out_of_memory and held what it asked. O(n log n).

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
        "status": _with_word(trace.nominal("status"), short),
    }
    return trace.with_columns(columns, replace(trace.info, memory_per="processor"))


def _with_word(status: Nominal, where: np.ndarray) -> Nominal:
    words = np.array([*status.categories, None], dtype=object)[status.codes]
    words[where] = OUT_OF_MEMORY
    return Nominal.encode(words.tolist())
