# SPDX-License-Identifier: Apache-2.0
"""Sizes, run times and arrivals of rigid jobs: Lublin & Feitelson, JPDC 63(11), 2003, with their constants.

Constants: the authors' program (U. Lublin, "A Workload Model for Parallel Computer Systems", Parallel Workloads
Archive). `ALL` is its model of jobs of unknown kind, `BATCH` and `INTERACTIVE` those of the two kinds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

SLOTS = 48  # half hours of a day
SLOT_S = 1800.0
DAY_STARTS = 11  # the first slot of the model's day: 5:30
MOST_LOG_RUN = 12.0  # no run longer than e^12 s, two days
MOST_LOG_GAP = 13.0  # no gap longer than e^13 s, five days


@dataclass(frozen=True, slots=True)
class Kind:
    """The parameters of one kind of jobs, by the paper's parts; gamma distributions as (shape, scale)."""

    serial: float  # share of jobs on one processor
    power_of_two: float  # share of all jobs rounded to a power of two
    smallest: float  # log2 sizes of parallel jobs: the smallest ...
    below_widest: float  # ... where the first uniform ends, as octaves below the widest ...
    narrower: float  # ... and the widest, as octaves below the machine
    first_stage: float  # share of the first uniform
    short: tuple[float, float]  # ln run time, the two gammas ...
    long: tuple[float, float]
    short_slope: float  # ... and the share of the first: slope * procs + share
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
    """Processors of `count` jobs on a machine of `procs`, int64 (count,): serial, a power of two, or any.

    log2 of a parallel job's size is uniform in two stages; a power of two rounds it. The published constants are for
    128 nodes: here the widest job and the end of the first stage keep their distance from log2(procs), as the
    authors advise. What rounding brings above the machine is cut to it. O(count).

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
    """Run times of jobs of these sizes, whole seconds from 1 to e^12, float64 (n,).

    ln of the run time is a mixture of two gammas (hyper-gamma); the share of the short one falls with the size,
    within [0, 1]. Draws above the longest are drawn again, the mixture too. O(n).

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
    """Arrivals on a clock without nights: seconds at the mean rate, ascending, float64 (count,). O(count)."""
    gaps = rng.gamma(*kind.gap, count)
    while (over := gaps > MOST_LOG_GAP).any():
        gaps[over] = rng.gamma(*kind.gap, int(over.sum()))
    return np.cumsum(np.exp(gaps))


def to_clock(kind: Kind, points: np.ndarray) -> np.ndarray:
    """Points as seconds since a midnight: a slot of the day lasts as many points as jobs come in it. O(n log 48).

    >>> to_clock(ALL, np.array([0.0, 86400.0])).tolist()
    [0.0, 86400.0]
    """
    day = SLOTS * SLOT_S
    paid = np.concatenate([[0.0], np.cumsum(day_weights(kind))]) * SLOT_S
    paid *= day / paid[-1]
    days = np.floor(points / day)
    return np.asarray(days * day + np.interp(points - days * day, paid, np.arange(SLOTS + 1) * SLOT_S))


def day_weights(kind: Kind) -> np.ndarray:
    """How many jobs come in each half hour of a day from midnight on, mean 1, float64 (48,).

    The gamma's mass around each slot from `DAY_STARTS` on, put back into the day's order.
    """
    slots = np.arange(DAY_STARTS, DAY_STARTS + SLOTS)
    edges = np.array([gamma_cdf((slot - 0.5) / kind.day[1], kind.day[0]) for slot in (*slots, slots[-1] + 1)])
    weights = np.empty(SLOTS)
    weights[(slots - 1) % SLOTS] = np.diff(edges)
    return np.asarray(weights / weights.mean())


def gamma_cdf(x: float, shape: float) -> float:
    """The regularised lower incomplete gamma function P(shape, x), by its series (DLMF 8.11.4); x >= 0.

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
