# SPDX-License-Identifier: Apache-2.0
"""Finds the time limit per chunk that finishes a long computation first, if the computation continues from checkpoints.

A chunk is one job of the computation. Each chunk is submitted when the previous chunk ends, so it waits in the queue
again. A short chunk waits less than a long chunk, but there are more short chunks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import NoAnswer, UsageError
from ...predict.conditional import given_waited
from ...units import format_duration, parse_span
from ..settings import Settings
from .answer import Answer, staleness
from .disclosure import Viewer, basis_of, open_site, start_settings
from .forecaster import NEVER, forecaster, never_starts, request_of
from .script import JUST_SUBMITTED_S, SPREAD_SHARES

LENGTHS_S = tuple(3600.0 * hours for hours in (0.5, 1, 2, 4, 8, 12, 24, 48, 72, 96, 168))
MOST_CHUNKS = 200
ASSUMED = (
    "assumed: each chunk is submitted when the one before it ends, and waits as a chunk of its length submitted now "
    "would; all waits of one computation are equally short or long, which makes the interval wide"
)


def parse_chunks(text: str) -> tuple[float, float]:
    """Read `TOTAL,COST` as seconds: the total run time, and the time to write and read one checkpoint.

    >>> parse_chunks("5d,10m"), parse_chunks("36h,0")
    ((432000.0, 600.0), (129600.0, 0.0))
    """
    total, comma, cost = text.partition(",")
    if not comma:
        raise UsageError(f"--chunks: {text!r} (accepted: TOTAL,CHECKPOINT_COST such as 5d,10m)")
    try:
        spans = parse_span(total), 0.0 if cost.strip() == "0" else parse_span(cost)
    except UsageError as error:
        raise UsageError(f"--chunks: {error.message}") from None
    if not (0 < spans[0] < math.inf and 0 <= spans[1] < spans[0]):
        raise UsageError(f"--chunks: {text!r} (accepted: a total above 0, and a shorter time for a checkpoint)")
    return spans


def count_chunks(total: float, cost: float, length: float) -> int:
    """Return how many chunks of this length a computation needs. Each chunk except the last spends `cost` seconds on a
    checkpoint.

    >>> count_chunks(10.0, 1.0, 10.0), count_chunks(10.0, 1.0, 4.0), count_chunks(10.0, 4.0, 4.0)
    (1, 3, 0)
    """
    if length >= total:
        return 1
    return math.ceil((total - length) / (length - cost) - 1e-9) + 1 if length > cost else 0


def answer_chunks(
    settings: Settings, options: Mapping[str, str], viewer: Viewer, now: float, total: float, cost: float
) -> Answer:
    """Return one result per chunk length that the partition accepts, the earliest likely end first.

    `chance_first` is the share, of twenty equally likely queue waits, in which this length finishes the computation
    first.
    """
    with open_site(settings, viewer, now) as site:
        ask = forecaster(site, ("wait",))
        results: list[dict[str, Any]] = []
        ends: list[list[float]] = []
        never = ""
        for length in sorted({*(s for s in LENGTHS_S if s < total), total}):
            count = count_chunks(total, cost, length)
            if not 0 < count <= MOST_CHUNKS:
                continue
            asked = {**options, "time": format_duration(math.ceil(length / 60) * 60)}
            job = request_of(asked, site, viewer.name or "")
            if why := never_starts(site, asked, job, ask.machine):
                never = why
                continue
            wait = ask.wait(job)
            waits = given_waited(wait, JUST_SUBMITTED_S, SPREAD_SHARES).quantiles
            waits = waits or (wait.point,) * len(SPREAD_SHARES)
            ends.append([count * one + total + (count - 1) * cost for one in waits])
            results.append({"length_s": length, "limit": asked["time"], "chunks": count, "partition": job.partition_id,
                            "likely_wait_s": wait.point, "basis": basis_of(wait)})  # fmt: skip
        if not results:
            raise NoAnswer(f"no length of chunk can start: {never or 'a checkpoint takes longer than any chunk'}",
                           hint=NEVER)  # fmt: skip
        results = [{**one, **_ends(spread, ends, now)} for one, spread in zip(results, ends)]
        results.sort(key=lambda one: (one["likely_end_s"], one["chunks"]))
        shown = {**start_settings(settings, now), "total_s": total, "checkpoint_s": cost}
        notes = [*staleness(site.memory, now), *ask.notes, ASSUMED]
        return Answer({"cluster": site.cluster}, shown, notes, site.disclosed(results))


def _ends(spread: Sequence[float], every: Sequence[Sequence[float]], now: float) -> dict[str, float]:
    """Return the likely end, its 90 % bound, and the share of cases in which this chunk length finishes first.

    If n chunk lengths finish first at the same time, each of them gets 1/n of this case.
    """
    ordered, n = sorted(spread), len(spread)
    first = 0.0
    for k, end in enumerate(spread):
        best = min(one[k] for one in every)
        if end == best:
            first += 1 / sum(one[k] == best for one in every)
    middle = (ordered[n // 2 - 1] + ordered[n // 2]) / 2
    return {
        "likely_end_s": now + middle,
        "by_90_end_s": now + ordered[math.ceil(0.9 * n) - 1],
        "chance_first": first / n,
    }
