"""Who submits what: applications of users, repeated in sessions, out of jobs drawn one by one.

Lublin & Feitelson draw jobs without users. Here the same jobs are put in an order: similar ones become the runs of
one application, and these come in sessions. So every size, run time and arrival stays as drawn, and a predictor that
knows a user's last jobs has something to learn. No log was fitted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

SESSION_JOBS = 8.0  # mean, before it is cut by what it holds of the machine
SESSION_HOURS = 1.0  # of the whole machine, at most
APPLICATION_HOURS = 6.0  # of the whole machine, at most
PAUSE_S = 600.0  # mean, between two jobs of a session
LIFETIME_DAYS = 30.0  # mean, of an application's sessions after the first
FEWEST, TAIL = 3.0, 1.2  # jobs of an application: Pareto
ACTIVITY = 0.9  # Zipf exponent of users


class Applications(NamedTuple):
    """Jobs ordered by application: `order` of the rows, and the application (from 0) of each in that order."""

    order: np.ndarray
    number: np.ndarray


def group_jobs(
    rng: np.random.Generator, sizes: np.ndarray, kinds: np.ndarray, runs: np.ndarray, spread: float, procs: int
) -> Applications:
    """Put jobs of one size and similar run time together as the runs of one application.

    Jobs are sorted by kind, size and ln run time + normal noise of `spread`, and cut into applications of heavy-tailed
    counts, which ask for six hours of the machine at the most: within one, ln run times differ by about `spread`.
    O(n log n).

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
    """The user of each application, from 1, the busier the smaller the number (Zipf), int64 (apps,)."""
    weights = np.cumsum(np.arange(1, users + 1) ** -ACTIVITY)
    return np.asarray(np.searchsorted(weights, rng.random(apps) * weights[-1], side="right") + 1, np.int64)


def draw_turns(
    rng: np.random.Generator, apps: Applications, sizes: np.ndarray, runs: np.ndarray, span: float, procs: int
) -> np.ndarray:
    """The rank among all arrivals at which each job comes, as a permutation (n,) in the order of `apps`.

    An application begins anywhere in the span; its sessions follow over some weeks, the jobs of a session within
    minutes. A session asks for an hour of the machine at the most: people submit fewer of their big jobs. `sizes`
    and `runs` are in the order of `apps`. O(n log n).
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
    turns = np.empty(n, np.int64)
    turns[np.argsort(when, kind="stable")] = np.arange(n)
    return turns
