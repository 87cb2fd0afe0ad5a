"""On synthetic logs with bursts and without a difference, how often does the 90 % interval contain zero?

Its output is the table in docs/evidence/differences.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from batchcast.metrics.bursts import WEEK_S, user_weeks
from batchcast.metrics.paired import LEAST_GROUPS, paired_differences

_LONGEST = 5000


@dataclass(frozen=True, slots=True)
class Bursts:
    """A kind of synthetic log: its users and weeks, the tail of burst sizes (Pareto: smaller is heavier), the errors.

    `lopsided` errors are usually a little better and sometimes far worse, with equal means; otherwise the two methods
    differ by chance alone, symmetrically about zero.
    """

    users: int
    weeks: int
    tail: float
    lopsided: bool = False


SETTINGS = tuple(
    Bursts(users, weeks, tail, lopsided)
    for lopsided in (False, True)
    for tail in (1.2, 1.6, 2.5)
    for users, weeks in ((15, 8), (30, 26), (60, 52))
)


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many of the logs' intervals contained zero; `groups` and `jobs` are medians over logs."""

    bursts: Bursts
    logs: int
    held: int
    groups: float
    jobs: float

    @property
    def share(self) -> float:
        """Return the share of intervals that contained zero; it should be 0.9."""
        return self.held / self.logs


def two_methods(bursts: Bursts, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return user, submit time and two methods' errors (n,) of a log on which neither method is better in expectation.

    Every user is active in some weeks and submits one burst in each; a burst's jobs share one error of each method (all
    were predicted before the first had ended) and have an individual error half as large.
    """
    active = rng.random((bursts.users, bursts.weeks)) < rng.beta(0.7, 1.5, bursts.users)[:, None]
    user, week = np.nonzero(active)
    groups = len(user)
    size = np.minimum(np.ceil(2.0 * (1.0 - rng.random(groups)) ** (-1.0 / bursts.tail)), _LONGEST).astype(int)
    scale = 600.0 * rng.lognormal(0.0, 1.2, groups)
    if bursts.lopsided:
        shared = np.array([rng.exponential(1.0, groups), np.ones(groups)])
    else:
        shared = np.abs(rng.normal(size=(2, groups)))
    of_job = np.repeat(np.arange(groups), size)
    own = 0.5 * rng.normal(size=(2, len(of_job)))
    errors = scale[of_job] * (shared[:, of_job] + own)
    submit = week[of_job] * WEEK_S + rng.random(groups)[of_job] * (WEEK_S - 3600.0)
    return user[of_job], submit, errors[0], errors[1]


def coverage(
    settings: Sequence[Bursts] = SETTINGS,
    logs: int = 1000,
    seed: int = 0,
) -> Iterator[Coverage]:
    """Yield one `Coverage` per setting; a log of fewer than `LEAST_GROUPS` groups is drawn again. A log takes about 10
    ms."""
    for bursts in settings:
        rng = np.random.default_rng([seed, bursts.users, bursts.weeks, int(10 * bursts.tail), bursts.lopsided])
        held, groups, jobs = 0, list[int](), list[int]()
        while len(groups) < logs:
            user, submit, one, other = two_methods(bursts, rng)
            if not len(user):
                continue
            paired = paired_differences(one[None], other, user_weeks(user, submit), rng)[0]
            if paired.groups < LEAST_GROUPS:
                continue
            held += paired.low <= 0.0 <= paired.high
            groups.append(paired.groups)
            jobs.append(paired.jobs)
        yield Coverage(bursts, logs, held, float(np.median(groups)), float(np.median(jobs)))


def main() -> None:
    """Print one line per setting, as a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=1000, help="synthetic logs a setting")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print("| errors | tail of burst sizes | user-weeks | jobs | intervals that hold zero |")
    print("|---|---|---|---|---|")
    for row in coverage(logs=given.logs, seed=given.seed):
        errors = "lopsided" if row.bursts.lopsided else "alike"
        print(
            f"| {errors} | {row.bursts.tail:g} | {row.groups:.0f} | {row.jobs:,.0f} | {100 * row.share:.1f} % |",
            flush=True,
        )


if __name__ == "__main__":
    main()
