"""What a waiting job is told from the state of now, beside its submission's forecast given the time waited, by age.

    python -m benchmarks.looks LOG --places 10001:15000

The log is replayed by `forecast`, which every 30 submissions looks at no more than 12 of those that wait. Scored are
the looks taken after the first and up to the last of `--places` at jobs whose wait is known, by how long they had
waited: the CRPS of log(1 + rest of the wait), with its difference over users and weeks, and how often intervals held.
"""

from __future__ import annotations

import argparse
import math
from time import process_time
from typing import NamedTuple

import numpy as np

from batchcast.evaluation.wait import TOLD_S, transforms
from batchcast.metrics.paired import paired_differences
from batchcast.metrics.wait import log_crps
from batchcast.predict.hazard.bins import quantiles, rest_of
from batchcast.predict.hazard.calibrated_waits import LEVELS, SPANS_S
from batchcast.predict.wait.forecast import Forecast
from batchcast.table import Trace
from batchcast.trace.read import read_trace

AGES = {
    "any": (0.0, math.inf),
    **dict(
        zip(
            ("less than 10 min", "10 min to 1 h", "1 h to 4 h", "4 h to a day", "a day or more"),
            zip((0.0, *SPANS_S), (*SPANS_S, math.inf)),
        )
    ),
}
WINDOW, LEAST = 5000, 50


class Asked(NamedTuple):
    """Looks that are scored: the job, its age and the rest of its wait, what was promised of that before and now."""

    job: np.ndarray
    waited: np.ndarray
    rest: np.ndarray
    before: np.ndarray
    now: np.ndarray


def main() -> None:
    """Print a line for each age, and the least kept in windows of looks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("log")
    parser.add_argument("--places", default="10001:15000", help="first and last job scored, counted from 1")
    given = parser.parse_args()
    first, last = (int(number) for number in given.places.split(":"))
    log = read_trace(given.log)
    log = log.take(np.arange(min(len(log), last)))
    method, began = Forecast(), process_time()
    method.predict_trace(log, ask=np.zeros(len(log), bool))
    asked = asked_after(method, log, first - 1)
    groups = log.nominal("user_id").codes[asked.job] * 10_000 + (log.submit_time[asked.job] + asked.waited) // 604800.0
    print(f"{len(log):,} jobs, {method.looks.number:,} looks, {process_time() - began:.0f} CPU s\n")
    print(f"| waited | looks | CRPS before | now | less, 90 % | 80, 90 % kept before | now |\n{'|---' * 7}|")
    for name, (low, high) in AGES.items():
        which = (asked.waited >= low) & (asked.waited < high)
        if which.sum() >= LEAST:
            print(line(name, Asked(*(of[which] for of in asked)), groups[which]))
    for name, curves in (("before", asked.before), ("now", asked.now)):
        held = [[kept(curves[at : at + WINDOW], asked.rest[at : at + WINDOW], tail) for tail in (0.1, 0.05)]
                for at in range(0, max(len(asked.job) - WINDOW, 0) + 1, WINDOW)]  # fmt: skip
        spans = [f"{min(of):.1f} to {max(of):.1f}" for of in zip(*held)]
        print(f"80, 90 % kept {name}, % in {len(held)} windows of {WINDOW:,} looks: {', '.join(spans)}")
    print(f"\n| told | jobs | 80, 90 % kept at submission | looks | 80, 90 % kept now |\n{'|---' * 5}|")
    scored = np.flatnonzero((np.arange(len(log)) >= first - 1) & (log.wait_time >= 0.0))
    for name, least in TOLD_S.items():
        cells = [
            by_told(chances, wait, least)
            for chances, wait in ((method.chances[scored], log.wait_time[scored]), (asked.now, asked.rest))
        ]
        print(f"| {name} or more | {' | '.join(cells)} |")


def asked_after(method: Forecast, log: Trace, first: int) -> Asked:
    """The looks after submission `first` whose waits are known."""
    looked = [one for one in method.looked if one[0] > log.submit_time[first] and len(one[1].row)]
    job = np.concatenate([look.row for _, look, _ in looked])
    waited = np.concatenate([look.waited for _, look, _ in looked])
    before = rest_of(method.chances[job], waited)
    known = (log.wait_time[job] >= waited) & ~np.isnan(before[:, 0])
    parts = (job, waited, log.wait_time[job] - waited, before, np.concatenate([left for _, _, left in looked]))
    return Asked(*(of[known] for of in parts))


def line(name: str, asked: Asked, groups: np.ndarray) -> str:
    """A row of the table."""
    then, now = crps(asked.before, asked.rest), crps(asked.now, asked.rest)
    which = np.unique(groups, return_inverse=True)[1]
    (pair,) = paired_differences(now, then, which, np.random.default_rng(0))
    held = [f"{kept(of, asked.rest, 0.1):.1f}, {kept(of, asked.rest, 0.05):.1f}" for of in (asked.before, asked.now)]
    less = f"{pair.difference:+.3f}, {pair.low:+.3f} to {pair.high:+.3f}"
    return f"| {name} | {len(then):,} | {then.mean():.3f} | {now.mean():.3f} | {less} | {held[0]} | {held[1]} |"


def by_told(chances: np.ndarray, wait: np.ndarray, least: float) -> str:
    """Of those whose median was `least` seconds or more: how many, and how many % of their intervals held."""
    told = np.ceil(quantiles(chances, np.full((len(chances), 1), 0.5))[:, 0]) >= least
    if told.sum() < LEAST:
        return f"{told.sum():,} | -"
    at = transforms(chances, wait)[told]
    held = [100.0 * float(np.mean((at > tail) & (at <= 1.0 - tail))) for tail in (0.1, 0.05)]
    return f"{len(at):,} | {held[0]:.1f}, {held[1]:.1f}"


def crps(curves: np.ndarray, wait: np.ndarray) -> np.ndarray:
    """The CRPS (n,) of log(1 + wait) by seven quantiles; one second counts as none."""
    said = quantiles(curves, np.tile(LEVELS, (len(curves), 1)))
    return log_crps(wait, LEVELS, np.where(said <= 1.0, 0.0, said))


def kept(curves: np.ndarray, wait: np.ndarray, tail: float) -> float:
    """How many % of waits lay between the levels `tail` and 1 - `tail`."""
    low, high = np.ceil(quantiles(curves, np.tile([tail, 1.0 - tail], (len(curves), 1)))).T
    return 100.0 * float(np.mean((wait >= np.maximum(low, 0.0)) & (wait <= high)))


if __name__ == "__main__":
    main()
