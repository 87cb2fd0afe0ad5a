# SPDX-License-Identifier: Apache-2.0
"""Evaluates past submissions: how often the chosen cluster was the best, and how much time the choice saved."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import BatchcastError
from ..metrics.coverage import is_covered
from ..store.ledger import SUBMITTED, Entry, Ledger
from .configured import Cluster
from .finish import LEVELS, or_inf

RESAMPLES = 2000


def learn_outcomes(ledger: Ledger, clusters: Mapping[str, Cluster]) -> list[str]:
    """Store when each submitted job started and ended; return one sentence for each cluster that does not answer."""
    problems: list[str] = []
    open_entries = [one for one in ledger.entries() if one.state == SUBMITTED and one.end_time is None]
    for name in dict.fromkeys(one.cluster for one in open_entries):
        entries = [one for one in open_entries if one.cluster == name]
        if (cluster := clusters.get(name)) is None:
            problems.append(f"{name}: {len(entries)} jobs were sent there, and no [[cluster]] has this name any more")
            continue
        try:
            times = _of_store(cluster, entries) if cluster.store else _of_accounting(cluster, entries)
        except BatchcastError as error:
            problems.append(f"{name}: the outcome of {len(entries)} jobs is not known: {error.message}")
            continue
        for one in entries:
            if one.job_id in times:
                ledger.note_outcome(one.token, *times[one.job_id])
    return problems


def learned_lateness(ledger: Ledger, clusters: Sequence[Cluster], now: float) -> dict[str, Sequence[float]]:
    """Read the outcomes of the user's submissions, then return `Ledger.lateness` for each name in `LEVELS`.

    Only outcomes that a store has are read, because that is fast; `batchcast accuracy` asks sacct for the other
    outcomes.
    """
    learn_outcomes(ledger, {one.name: one for one in clusters if one.store})
    return {name: ledger.lateness(name, now) for name in LEVELS}


def _of_store(cluster: Cluster, entries: Sequence[Entry]) -> dict[str, tuple[float | None, float | None]]:
    """Return start and end (epoch seconds) of submitted jobs by job id, from the cluster's store."""
    from ..store.reader import Reader

    with Reader(cluster.store) as reader:
        return {
            str(one.job_id): (row["start_time"], row["end_time"])
            for one in entries
            for row in reader.ask("times_of", cluster=cluster.name, job_id=one.job_id, since=one.at - 60.0)
        }


def _of_accounting(cluster: Cluster, entries: Sequence[Entry]) -> dict[str, tuple[float | None, float | None]]:
    """Return start and end (epoch seconds) of submitted jobs by job id, from sacct on the cluster."""
    ids = ",".join(str(one.job_id) for one in entries)
    since = f"--starttime=uts{min(one.at for one in entries) - 60:.0f}"
    text = cluster.ask("sacct", "-X", "-n", "-P", f"--jobs={ids}", since, "--format=JobIDRaw,Start,End")
    rows = [line.split("|") for line in text.splitlines()]
    return {row[0]: (_number(row[1]), _number(row[2])) for row in rows if len(row) == 3}


def _number(text: str) -> float | None:
    """Return the epoch seconds that sacct printed; None for `Unknown`."""
    return float(text) if text.isdigit() else None


def judge(entries: Sequence[Entry], home: str) -> list[dict[str, Any]]:
    """Return one row about all submissions that have ended; an empty list if no submission has ended.

    A choice counts as right if the job ended no later than the median predicted end on every other cluster. The gain is
    the predicted mean end on the home cluster minus the actual end. The end on the home cluster is only a prediction,
    because the job did not run there. The interval of the mean gain is a bootstrap over submissions.

    >>> from batchcast.store.ledger import Offer
    >>> offers = [Offer(cluster="b", likely_end_s=90.0, by_90_end_s=120.0, expected_end_s=95.0),
    ...           Offer(cluster="a", likely_end_s=150.0, by_90_end_s=300.0, expected_end_s=160.0)]
    >>> entry = Entry("t", None, 0.0, "d", "job.sh", "b", [], offers, SUBMITTED, "7", None, 50.0, 100.0)
    >>> row, = judge([entry] * 3, "a")
    >>> row["right"], row["gain_mean_s"], row["gain_low_s"], row["coverage_90"]
    (1.0, 60.0, 60.0, 1.0)
    """
    ended = [one for one in entries if one.state == SUBMITTED and one.end_time is not None and one.offers]
    if not ended:
        return []
    right, gains, held = [], [], []
    for one in ended:
        end, chosen = float(one.end_time or math.nan), one.offers[0]
        others = [or_inf(row.likely_end_s) for row in one.offers if row.cluster != one.cluster]
        right.append(all(end <= other for other in others))
        held.append(is_covered(end, or_inf(chosen.by_90_end_s)))
        at_home = next((row for row in one.offers if row.cluster.lower() == home.lower()), None)
        if one.cluster.lower() == home.lower():
            gains.append(0.0)
        elif at_home is not None and math.isfinite(expected := or_inf(at_home.expected_end_s)):
            gains.append(expected - end)
    low, high = _interval(gains)
    return [
        {
            "submissions": len(ended),
            "home": home,
            "sent_elsewhere": sum(one.cluster.lower() != home.lower() for one in ended),
            "right": sum(right) / len(right),
            "coverage_90": sum(held) / len(held),
            "gain_mean_s": sum(gains) / len(gains) if gains else math.nan,
            "gain_low_s": low,
            "gain_high_s": high,
        }
    ]


def _interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 90 % bootstrap interval of the mean. The seed is fixed, so that equal values give equal intervals."""
    if not values:
        return math.nan, math.nan
    rng = random.Random(1)
    n = len(values)
    means = sorted(sum(rng.choices(values, k=n)) / n for _ in range(RESAMPLES))
    return means[int(0.05 * RESAMPLES)], means[int(0.95 * RESAMPLES) - 1]
