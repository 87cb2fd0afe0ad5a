"""What renewed forecasts of waiting jobs gain over that of their submission given the time waited, by CRPS at looks.

    python -m benchmarks.looks LOG --jobs 10001:15000
    python -m benchmarks.looks LOG --jobs 4001:6500 --together

The log is replayed by `forecast`, which every 30 submissions looks at no more than 12 of those that wait. Scored are
the looks taken after the first and up to the last of `--jobs`: the rest of the wait as promised at the job's
submission, given the time since, and as `forecast` promises it from what the job sees by now; and how often intervals
held. `--together` shows instead what one model that learns from submissions and looks together would have said, fitted
on what was known when the first of `--jobs` came, raw, beside a raw model of submissions alone. Intervals are over
users and weeks.
"""

from __future__ import annotations

import argparse
from time import process_time
from typing import NamedTuple

import numpy as np

from batchcast.metrics.paired import paired_differences
from batchcast.metrics.wait import log_crps
from batchcast.predict.hazard.bins import quantiles, rest_of
from batchcast.predict.hazard.calibrated_waits import LEVELS
from batchcast.predict.hazard.features import NAMES
from batchcast.predict.hazard.model import Waits, fit
from batchcast.predict.hazard.training_rows import ENDED, SPOILED, Submissions
from batchcast.predict.wait.forecast import Forecast
from batchcast.table import Trace
from batchcast.trace.read import read_trace

HALF_LIFE = 10_000.0


class Asked(NamedTuple):
    """Looks that are scored: job, features, the promise at submission given the time and the renewed one, the rest."""

    job: np.ndarray
    at: np.ndarray
    features: np.ndarray
    before: np.ndarray
    renewed: np.ndarray
    rest: np.ndarray


def main() -> None:
    """Print the mean CRPS of each, and its difference to the first."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("log")
    parser.add_argument("--jobs", default="10001:15000", help="first and last job scored, counted from 1")
    parser.add_argument("--together", action="store_true")
    given = parser.parse_args()
    first, last = (int(number) for number in given.jobs.split(":"))
    log = read_trace(given.log)
    log = log.take(np.arange(min(len(log), last)))
    method, began = Forecast(looks=True), process_time()
    method.predict_trace(log, ask=np.zeros(len(log), bool))
    asked = asked_after(method, log, first - 1)
    groups = log.nominal("user_id").codes[asked.job] * 10_000 + asked.at // (7 * 86400.0)
    print(f"{len(log):,} jobs, {method.looks.number:,} looks, {process_time() - began:.0f} CPU s")
    if given.together:
        together(method, log, first - 1, asked, groups)
        return
    show("looks", groups, {"as at submission, given the time waited": crps(asked.before, asked.rest),
                           "renewed": crps(asked.renewed, asked.rest)})  # fmt: skip
    print("\n| kept, % | 80 % | 90 % |\n|---|---|---|")
    for name, curves in (("as at submission, given the time waited", asked.before), ("renewed", asked.renewed)):
        print(f"| {name} | {kept(curves, asked.rest, 0.1):.1f} | {kept(curves, asked.rest, 0.05):.1f} |")


def asked_after(method: Forecast, log: Trace, first: int) -> Asked:
    """The looks after submission `first` whose waits are known."""
    looked = [one for one in method.looked if one[0] > log.submit_time[first] and len(one[1].row)]
    job = np.concatenate([look.row for _, look, _ in looked])
    waited = np.concatenate([look.waited for _, look, _ in looked])
    at = log.submit_time[job] + waited
    features = np.concatenate([look.features for _, look, _ in looked])
    known = log.wait_time[job] >= waited
    before = rest_of(method.chances[job], waited)
    renewed = np.concatenate([left for _, _, left in looked])
    parts = (job, at, features, before, renewed, log.wait_time[job] - waited)
    return Asked(*(of[known & ~np.isnan(before[:, 0])] for of in parts))


def together(method: Forecast, log: Trace, first: int, asked: Asked, groups: np.ndarray) -> None:
    """One model of submissions and looks beside one of submissions alone, at looks and at submissions."""
    then = float(log.submit_time[first])
    submissions = lessons(method.submissions, then, first)
    looks = lessons(method.looks.ring, then, first)
    alone = fit(*submissions)
    features = np.concatenate([submissions[0], looks[0][:, : len(NAMES)]])
    both = fit(features, Waits(*(np.concatenate(pair) for pair in zip(submissions[1], looks[1]))))
    assert alone is not None
    assert both is not None
    new = np.arange(first, len(log))
    new = new[log.wait_time[new] >= 0]
    rows = np.stack([row for k in new.tolist() if (row := method.submissions.of(k)) is not None])
    at_submission = np.full((len(log), asked.before.shape[1]), np.nan)
    at_submission[new] = alone.curves(rows)
    since = asked.job >= first
    given = rest_of(at_submission[asked.job[since]], asked.at[since] - log.submit_time[asked.job[since]])
    rest = asked.rest[since]
    show("looks, raw", groups[since], {
        "model of submissions, given the time waited": crps(np.nan_to_num(given, nan=1.0), rest),
        "model of both": crps(both.curves(asked.features[since]), rest),
    })  # fmt: skip
    theirs = log.nominal("user_id").codes[new] * 10_000 + log.submit_time[new] // (7 * 86400.0)
    wait = log.wait_time[new]
    show("submissions, raw", theirs, {
        "model of submissions": crps(at_submission[new], wait), "model of both": crps(both.curves(rows), wait),
    })  # fmt: skip


def lessons(ring: Submissions, then: float, first: int) -> tuple[np.ndarray, Waits]:
    """What a ring would have taught at `then`, before submission `first`."""
    rows = np.flatnonzero((ring.number >= 0) & (ring.born < first) & (ring.submit <= then) & (ring.fate != SPOILED))
    end = ring.submit[rows] + ring.waited[rows]
    weight = 0.5 ** ((first - 1 - ring.born[rows]) / HALF_LIFE)
    ended = (ring.fate[rows] == ENDED) & (end <= then)
    return ring.features[rows], Waits(np.minimum(end, then) - ring.submit[rows], ended, weight)


def show(of: str, groups: np.ndarray, scores: dict[str, np.ndarray]) -> None:
    """A table of mean scores and differences to the first, with intervals over groups."""
    reference = next(iter(scores.values()))
    which = np.unique(groups, return_inverse=True)[1]
    print(f"\n| {of} ({len(reference):,}) | CRPS | less the first, 90 % |\n|---|---|---|")
    for name, mine in scores.items():
        (pair,) = paired_differences(mine, reference, which, np.random.default_rng(0))
        print(f"| {name} | {mine.mean():.3f} | {pair.difference:+.3f}, {pair.low:+.3f} to {pair.high:+.3f} |")


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
