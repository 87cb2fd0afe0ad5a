"""What a hazard model gains that also learns from looks at jobs that wait already: the rest of their wait, by CRPS.

    python -m benchmarks.looks LOG --fits 10000,16000

Every 90 events of the log at most 12 of the queued jobs are looked at: each figure as if the job came now at its place,
and how long it has waited. At each of `--fits` submissions two models are fitted on what was known then: one on
submissions alone, one on those and looks, with the time waited as one more figure. They are asked at the looks of the
next 5,000 submissions, and at those submissions, raw, without calibration. Intervals are over users and weeks.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np

from batchcast.events.record import Columns, requests_of
from batchcast.events.recorded import timeline, told_events
from batchcast.metrics.chances import log_crps
from batchcast.metrics.paired import paired_differences
from batchcast.predict.hazard import features as kernel
from batchcast.predict.hazard.bins import quantiles, reached
from batchcast.predict.hazard.draws import PLANS
from batchcast.predict.hazard.lessons import blank_lessons, with_room
from batchcast.predict.hazard.model import Waits, fit
from batchcast.predict.hazard.promises import LEVELS
from batchcast.predict.hazard.renewal import describe_queue
from batchcast.predict.hazard.run_curve import COUNT
from batchcast.predict.runtime.kernel import Kernel
from batchcast.predict.wait.forecast import most_at_once
from batchcast.table import Trace
from batchcast.trace.read import read_trace

EVENTS, MOST, ASKED = 90, 12, 5000
WINDOW, HALF_LIFE = 20_000, 10_000.0


class Seen(NamedTuple):
    """Of submissions: features (n, f), submit times, waits; of looks: the job, the instant, features."""

    rows: np.ndarray
    submit: np.ndarray
    wait: np.ndarray
    job: np.ndarray
    at: np.ndarray
    looks: np.ndarray


def main() -> None:
    """Print the mean CRPS of each, and its difference to the forecast of submission given the time waited."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("log")
    parser.add_argument("--fits", default="10000,16000")
    given = parser.parse_args()
    fits = [int(number) for number in given.fits.split(",")]
    log = read_trace(given.log)
    log = log.take(np.arange(min(len(log), max(fits) + ASKED + 1000)))
    seen = look(log)
    print(f"{len(seen.rows):,} submissions, {len(seen.job):,} looks")
    scores: dict[str, list[np.ndarray]] = {}
    groups: dict[str, list[np.ndarray]] = {"looks": [], "submissions": []}
    user = log.nominal("user_id").codes
    for at in fits:
        for name, score in asked_after(seen, at).items():
            scores.setdefault(name, []).append(score)
        for kind, (job, when) in zip(groups, (asked_looks(seen, at), asked_submissions(seen, at))):
            groups[kind].append(user[job] * 10_000 + when // (7 * 86400.0))
    for kind, names in zip(groups, (list(scores)[:3], list(scores)[3:])):
        which = np.unique(np.concatenate(groups[kind]), return_inverse=True)[1]
        reference = np.concatenate(scores[names[0]])
        print(f"\n| {kind} ({len(reference):,}) | CRPS | less the first, 90 % |\n|---|---|---|")
        for name in names:
            mine = np.concatenate(scores[name])
            (pair,) = paired_differences(mine, reference, which, np.random.default_rng(0))
            print(f"| {name} | {mine.mean():.3f} | {pair.difference:+.3f}, {pair.low:+.3f} to {pair.high:+.3f} |")


def look(log: Trace) -> Seen:
    """What every submission saw, and what some of those that waited saw in between."""
    n = len(log)
    runs = np.full((n, COUNT), np.nan, np.float32)
    runs[:] = Kernel().predict_trace(log, "honest", "req").quantiles
    requests, codes = requests_of(log, "req")
    plan = timeline(log, "honest")
    events = told_events(log, plan)
    state = Columns(log.info.max_procs, n)
    state.make_room(n, len(codes["user_id"]) + 1)
    room, lessons = kernel.blank_room(*most_at_once(plan.kind)), blank_lessons()
    rows, taught = np.zeros((n, len(kernel.NAMES)), np.float32), np.full(len(events), np.nan)
    jobs, instants, looks = [], [], []
    for first in range(0, len(events), EVENTS):
        end = min(first + EVENTS, len(events))
        lessons = with_room(lessons, end - first)
        kernel.describe_log(state.record, lessons, requests, events, first, end, True, runs, room, rows, taught)
        queue, now = np.array(state.queued_entries()), float(events["time"][end - 1])
        if len(queue):
            out, waits = np.zeros((len(queue), len(kernel.NAMES)), np.float32), np.zeros((len(PLANS), len(queue)))
            describe_queue(state.record, lessons, now, runs, room, waits, out)
            few = min(len(queue), MOST)
            picked = np.random.default_rng(first).choice(len(queue), few, replace=False)
            jobs.append(queue[picked])
            instants.append(np.full(few, now))
            looks.append(out[picked])
    wait = np.full(n, np.nan)
    wait[plan.index[~np.isnan(taught)]] = taught[~np.isnan(taught)]
    return Seen(rows, log.submit_time, wait, np.concatenate(jobs), np.concatenate(instants), np.concatenate(looks))


def asked_after(seen: Seen, at: int) -> dict[str, np.ndarray]:
    """The CRPS of each model at the looks and at the submissions after the fit at submission `at`."""
    then = seen.submit[at]
    taught = np.arange(max(0, at - WINDOW), at)
    taught = taught[~np.isnan(seen.wait[taught])]
    looked = np.flatnonzero((seen.at < then) & (seen.job >= at - WINDOW) & ~np.isnan(seen.wait[seen.job]))
    alone = fit(seen.rows[taught], known(seen, taught, seen.submit[taught], at))
    job = np.concatenate([taught, seen.job[looked]])
    since = np.concatenate([seen.submit[taught], seen.at[looked]])
    both = fit(
        np.concatenate(
            [
                waited_so_far(seen.rows[taught], np.zeros(len(taught))),
                waited_so_far(seen.looks[looked], 1.0 + seen.at[looked] - seen.submit[seen.job[looked]]),
            ]
        ),
        known(seen, job, since, at),
    )
    assert alone is not None
    assert both is not None
    job, when = asked_looks(seen, at)
    looks = seen.looks[mask_of_looks(seen, at)]
    elapsed = when - seen.submit[job]
    rest = seen.submit[job] + seen.wait[job] - when
    new, _ = asked_submissions(seen, at)
    zero = np.zeros(len(new))
    return {
        "as at submission, given the time waited": given_elapsed(alone.curves(seen.rows[job]), elapsed, rest),
        "as if it came now, model of submissions": crps(alone.curves(looks), rest),
        "a look, model that learned from looks": crps(both.curves(waited_so_far(looks, 1.0 + elapsed)), rest),
        "submission, model of submissions": crps(alone.curves(seen.rows[new]), seen.wait[new]),
        "submission, model that learned from looks": crps(
            both.curves(waited_so_far(seen.rows[new], zero)), seen.wait[new]
        ),
    }


def known(seen: Seen, job: np.ndarray, since: np.ndarray, at: int) -> Waits:
    """What is known at submission `at` of waits counted from `since`."""
    then, end = seen.submit[at], seen.submit[job] + seen.wait[job]
    return Waits(np.minimum(end, then) - since, end <= then, 0.5 ** ((at - 1 - job) / HALF_LIFE))


def mask_of_looks(seen: Seen, at: int) -> np.ndarray:
    """Looks after submission `at`, at jobs that came after it."""
    last = seen.submit[min(at + ASKED, len(seen.submit) - 1)]
    wait = seen.wait[seen.job]
    inside = (seen.at > seen.submit[at]) & (seen.at <= last) & (seen.job >= at)
    return np.asarray(inside & (seen.submit[seen.job] + np.nan_to_num(wait, nan=-1.0) > seen.at))


def asked_looks(seen: Seen, at: int) -> tuple[np.ndarray, np.ndarray]:
    """Their jobs and instants."""
    inside = mask_of_looks(seen, at)
    return seen.job[inside], seen.at[inside]


def asked_submissions(seen: Seen, at: int) -> tuple[np.ndarray, np.ndarray]:
    """The next 5,000 submissions, but for the first 250, and their instants."""
    new = np.arange(at + 250, min(at + 250 + ASKED, len(seen.rows)))
    new = new[~np.isnan(seen.wait[new])]
    return new, seen.submit[new]


def waited_so_far(rows: np.ndarray, elapsed: np.ndarray) -> np.ndarray:
    """The features with the time waited as one more; 0 at submission."""
    return np.column_stack([rows, np.log1p(elapsed)]).astype(np.float32)


def crps(curves: np.ndarray, wait: np.ndarray) -> np.ndarray:
    """The CRPS (n,) of log(1 + wait) by seven quantiles; one second counts as none."""
    said = quantiles(curves, np.tile(LEVELS, (len(curves), 1)))
    return log_crps(wait, LEVELS, np.where(said <= 1.0, 0.0, said))


def given_elapsed(curves: np.ndarray, elapsed: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """The same of the rest, by curves of the whole wait."""
    gone = reached(curves, elapsed)[:, None]
    said = quantiles(curves, gone + np.array(LEVELS)[None, :] * (1.0 - gone)) - elapsed[:, None]
    return log_crps(rest, LEVELS, np.where(said <= 1.0, 0.0, said))


if __name__ == "__main__":
    main()
