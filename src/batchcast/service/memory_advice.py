"""What memory to ask for by account and application, and what it would have spared: from measured peaks in a store.

The live side of `batchcast limits LOG --memory --by account` (`evaluation.memory_limits`): requests as they would have
been advised from what had ended by then, every attempt of a job that runs out counted in full, against what its user
asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from ..columns import OUT_OF_MEMORY
from ..predict.attempts import spent
from ..predict.recommend import recommend_limit
from ..store.packed import Packed
from ..store.peaks import asked_a_node, node_peak
from .advice import RISK, SAMPLED, Rules, of_partition
from .answers import median
from .hidden import DAY_S, rounded
from .memory import as_request, needed

GIB_H = 1024.0**2 * 3600.0
LEAST_JOBS, MOST_JOBS = 5, 1000
LEAST_GIB_H = 10.0
"""What is spared below this is no advice."""
MOST_OFTEN = 0.2
"""Where so many run out of memory they are shown, whatever is spared."""
Row = Mapping[str, Any]


def memory_advice(
    rows: Packed, memory: Mapping[str, Any], rules: Rules, least: int, most: int = 40
) -> list[dict[str, Any]]:
    """One flat object for each account and application with something to change, what spares most first.

    Parameters
    ----------
    rows
        Ended jobs whose memory was measured, or that ran out of it (the statement `used_memory`).
    memory
        What the collector remembers: the memory of a partition's nodes.
    rules
        The site's least request and its step.
    least
        The fewest users that a figure may be of; above one every number has two digits (`service.hidden`).
    most
        The most objects.

    Returns
    -------
    list of dict
        `account`, `name`, `users`, `jobs`; KiB a node: `asked_kib` and `held_kib` (medians), `ask_kib` the request that
        95 % of the last 1,000 jobs keep to, as `--mem` takes it in `flag`; `ran_out_rate`; `gib_h` what would have been
        spared by asking so, and `by_request_gib_h` what was asked for, each with further attempts.

    Notes
    -----
    Advice is renewed once a day (UTC), from what had ended before it; the first jobs of a group, and those whose
    request is unknown, keep theirs. O(n log n), and once a day the last 1,000 jobs of a group.
    """
    figures = []
    for (account, name), group in rows.grouped("account", "job_name"):
        users = len({row["user_id"] for row in group})
        one = _of_group(group, memory, rules) if users >= least else None
        if one is not None:
            ask = _up(one["ask_kib"]) if least > 1 else one["ask_kib"]
            shown = {"account": account or "–", "name": name or "–", "users": users, **one}
            shown = rounded(shown) if least > 1 else shown
            figures.append({**shown, "ask_kib": ask, "flag": f"--mem={as_request(ask)}"})
    return sorted(figures, key=lambda one: -one["gib_h"])[:most]


def _up(kib: float) -> float:
    """A request in MiB of two digits, not below what is needed.

    >>> _up(4301.0 * 1024) / 1024, _up(4300.0 * 1024) / 1024
    (4400.0, 4300.0)
    """
    digit = 10.0 ** (math.floor(math.log10(kib / 1024)) - 1)
    return math.ceil(kib / 1024 / digit - 1e-9) * digit * 1024


def _of_group(rows: Sequence[Row], memory: Mapping[str, Any], rules: Rules) -> dict[str, Any] | None:
    """Of jobs that are alike; None where they are too few, nothing was measured, or nothing is to be changed."""
    asks = [row for row in rows if asked_a_node(row) > 0 and _peak(row) > 0]
    if len(asks) < LEAST_JOBS or needed(asks).copied:
        return None
    node = max(of_partition(memory, row["partition_id"]).get("node_mem_kib") or math.inf for row in asks)
    asks.sort(key=lambda row: float(row["end_time"]))
    latest = _request(asks, rules, node)
    by_request = sum(_cost(row, asked_a_node(row)) for row in asks)
    spared = by_request - _as_advised(asks, rules, node)
    out = sum(row["status"] == OUT_OF_MEMORY for row in asks)
    if latest is None or (spared < LEAST_GIB_H and out < max(2.0, MOST_OFTEN * len(asks))):
        return None
    return {
        "jobs": len(asks),
        "asked_kib": median(map(asked_a_node, asks)),
        "held_kib": median(map(_peak, asks)),
        "ask_kib": latest,
        "ran_out_rate": out / len(asks),
        "gib_h": spared,
        "by_request_gib_h": by_request,
    }


def _as_advised(rows: Sequence[Row], rules: Rules, node: float) -> float:
    """What these jobs, by their end, would have cost as they would have been advised on the day of their submission."""
    total, ended = 0.0, 0
    by_day = sorted(rows, key=lambda row: float(row["submit_time"]))
    for day, jobs in groupby(by_day, key=lambda row: row["submit_time"] // DAY_S):
        while ended < len(rows) and rows[ended]["end_time"] < day * DAY_S:
            ended += 1
        advised = _request(rows[max(ended - MOST_JOBS, 0) : ended], rules, node)
        total += sum(_cost(row, asked_a_node(row) if advised is None else advised) for row in jobs)
    return total


def _request(rows: Sequence[Row], rules: Rules, node: float) -> float | None:
    """The request a node that keeps the risk for jobs like these, KiB; None where they are too few."""
    like = needed(rows[-MOST_JOBS:])
    if len(like.kib) < LEAST_JOBS:
        return None
    floor, step = rules.memory_floor, rules.memory_step
    held = [kib * SAMPLED for kib in like.kib]
    return recommend_limit(held, like.ran_out, RISK, floor=floor, step=step, most=node).limit_s


def _peak(row: Row) -> float:
    """KiB a node; of a job that ran out of memory what it got, which was not enough."""
    held = node_peak(row)
    if row["status"] == OUT_OF_MEMORY:
        own = asked_a_node(row)
        return held if held > own else own
    return held


def _cost(row: Row, request: float) -> float:
    """GiB-hours of a job's attempts under a request: where it runs out, its user's own next, else twice as much."""
    peak, own = _peak(row), asked_a_node(row)
    short = row["status"] == OUT_OF_MEMORY and request <= peak
    again = own if own >= peak else math.nan
    each = spent(request, math.nextafter(peak, math.inf) if short else peak, again)
    return float(each * max(row["alloc_nodes"] or 1.0, 1.0) * (row["end_time"] - row["start_time"]) / GIB_H)
