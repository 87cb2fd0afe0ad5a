"""Predictions for waiting jobs from the current state, compared with the prediction at submission given the time
waited, by age.

    python -m benchmarks.looks LOG --places 10001:15000

`forecast` replays the log, and predicts after every 30 submissions for at most 12 waiting jobs. The program scores the
predictions made between the two submissions of `--places`, for jobs whose wait is known. By the time waited, it prints
the CRPS of log(1 + remaining wait), its difference over users and weeks, and the coverage of intervals.

The last table shows the coverage of predictions at submission, counted in four ways: by job or by burst, for example.
Jobs of one burst are covered or missed together, so a log with a few large bursts has few independent cases.
"""

from __future__ import annotations

import argparse
import math
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from batchcast.evaluation.wait import TOLD_S, transforms
from batchcast.events.record import requests_of
from batchcast.metrics.paired import paired_differences
from batchcast.metrics.wait import log_crps
from batchcast.predict.hazard.bins import quantiles, rest_of
from batchcast.predict.hazard.calibrated_waits import LEVELS, SPANS_S
from batchcast.predict.wait.forecast import Forecast, sender_of
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
APART_S = 3600.0
"""Submissions of one sender with less than this many seconds between them are one burst."""


class Asked(NamedTuple):
    """Scored predictions: the job, its age and remaining wait, the prediction at submission and the present one."""

    job: np.ndarray
    waited: np.ndarray
    rest: np.ndarray
    before: np.ndarray
    now: np.ndarray


class Counting(Forecast):
    """`forecast`, which also returns which submissions counted as evidence (hazard.bursts)."""

    def __init__(self) -> None:
        super().__init__()
        self.counted: list[int] = []

    def _note(self, row: int, *told: Any) -> None:
        before = self.votes
        super()._note(row, *told)
        self.counted += [row] * (self.votes - before)


def main() -> None:
    """Print a line for each age, and the lowest coverage in windows of predictions."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("log")
    parser.add_argument("--places", default="10001:15000", help="first and last job scored, counted from 1")
    given = parser.parse_args()
    first, last = (int(number) for number in given.places.split(":"))
    log = read_trace(given.log)
    log = log.take(np.arange(min(len(log), last)))
    method, began = Counting(), process_time()
    method.predict_trace(log, ask=np.zeros(len(log), bool), renew=True)
    asked = asked_after(method, log, first - 1)
    groups = log.nominal("user_id").codes[asked.job] * 10_000 + (log.submit_time[asked.job] + asked.waited) // 604800.0
    print(f"{len(log):,} jobs, {method.renewal.number:,} looks, {process_time() - began:.0f} CPU s\n")
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
    print_counts(method, log, scored)


def print_counts(method: Counting, log: Trace, scored: np.ndarray) -> None:
    """Print the coverage of intervals at submission counted in four ways, and the effective number of bursts: how many
    equally large bursts would have the same weight."""
    chances, wait = method.chances[scored], log.wait_time[scored]
    at = transforms(chances, wait)
    held = np.column_stack([(at > tail) & (at <= 1.0 - tail) for tail in (0.1, 0.05)])
    counted, burst = np.isin(scored, method.counted), bursts_of(log)[scored]
    burst, sizes = np.unique(burst, return_inverse=True, return_counts=True)[1:]
    by_burst = np.column_stack([np.bincount(burst, of) / sizes for of in held.T])
    rows = {
        "every job": (len(held), *held.mean(axis=0) * 100.0),
        "every job, a wait in the second of a bound being within it": (
            len(held), kept(chances, wait, 0.1), kept(chances, wait, 0.05)),
        "jobs that count as evidence": (int(counted.sum()), *held[counted].mean(axis=0) * 100.0),
        "bursts, each the mean of its jobs": (len(sizes), *by_burst.mean(axis=0) * 100.0),
    }  # fmt: skip
    print(f"\n| counted at submission | number | 80, 90 % kept |\n{'|---' * 3}|")
    for name, (number, *shares) in rows.items():
        print(f"| {name} | {number:,} | {', '.join(f'{share:.1f}' for share in shares)} |")
    print(f"as many as {sizes.sum() ** 2 / np.square(sizes, dtype=float).sum():.1f} equally large bursts")


def bursts_of(log: Trace) -> np.ndarray:
    """Return the burst (n,) of each job: its sender's submissions with less than APART_S between them."""
    senders = [sender_of(job) for job in requests_of(log, "req")[0]]
    numbers = {sender: number for number, sender in enumerate(dict.fromkeys(senders))}
    sender = np.array([numbers[of] for of in senders])
    order = np.lexsort((log.submit_time, sender))
    new = (np.diff(sender[order]) != 0) | (np.diff(log.submit_time[order]) >= APART_S)
    burst = np.empty(len(log), np.int64)
    burst[order] = np.cumsum(np.append(0, new))
    return burst


def asked_after(method: Forecast, log: Trace, first: int) -> Asked:
    """Return the predictions after submission `first` whose waits are known."""
    looked = [one for one in method.snapshots if one[0] > log.submit_time[first] and len(one[1].row)]
    job = np.concatenate([look.row for _, look, _ in looked])
    waited = np.concatenate([look.waited for _, look, _ in looked])
    before = rest_of(method.chances[job], waited)
    known = (log.wait_time[job] >= waited) & ~np.isnan(before[:, 0])
    parts = (job, waited, log.wait_time[job] - waited, before, np.concatenate([left for _, _, left in looked]))
    return Asked(*(of[known] for of in parts))


def line(name: str, asked: Asked, groups: np.ndarray) -> str:
    """Return a row of the table."""
    then, now = crps(asked.before, asked.rest), crps(asked.now, asked.rest)
    which = np.unique(groups, return_inverse=True)[1]
    (pair,) = paired_differences(now, then, which, np.random.default_rng(0))
    held = [f"{kept(of, asked.rest, 0.1):.1f}, {kept(of, asked.rest, 0.05):.1f}" for of in (asked.before, asked.now)]
    interval = "too few groups" if math.isnan(pair.low) else f"{pair.low:+.3f} to {pair.high:+.3f}"
    less = f"{pair.difference:+.3f}, {interval}"
    return f"| {name} | {len(then):,} | {then.mean():.3f} | {now.mean():.3f} | {less} | {held[0]} | {held[1]} |"


def by_told(chances: np.ndarray, wait: np.ndarray, least: float) -> str:
    """For predictions with a median of `least` seconds or more: their number, and the coverage of their intervals in
    %."""
    told = np.ceil(quantiles(chances, np.full((len(chances), 1), 0.5))[:, 0]) >= least
    if told.sum() < LEAST:
        return f"{told.sum():,} | -"
    at = transforms(chances, wait)[told]
    held = [100.0 * float(np.mean((at > tail) & (at <= 1.0 - tail))) for tail in (0.1, 0.05)]
    return f"{len(at):,} | {held[0]:.1f}, {held[1]:.1f}"


def crps(curves: np.ndarray, wait: np.ndarray) -> np.ndarray:
    """Return the CRPS (n,) of log(1 + wait) from seven quantiles; a quantile of at most one second counts as no
    wait."""
    said = quantiles(curves, np.tile(LEVELS, (len(curves), 1)))
    return log_crps(wait, LEVELS, np.where(said <= 1.0, 0.0, said))


def kept(curves: np.ndarray, wait: np.ndarray, tail: float) -> float:
    """Return the share of waits in % between the levels `tail` and 1 - `tail`."""
    low, high = np.ceil(quantiles(curves, np.tile([tail, 1.0 - tail], (len(curves), 1)))).T
    return 100.0 * float(np.mean((wait >= np.maximum(low, 0.0)) & (wait <= high)))


if __name__ == "__main__":
    main()
