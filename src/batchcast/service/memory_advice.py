"""What memory to ask for by account and application, and what it would have spared: from measured peaks in a store.

The live side of `batchcast limits LOG --memory --by account` (`evaluation.memory_limits`): requests as they would have
been advised from what had ended by then, every attempt of a job that runs out counted in full, against what its user
asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from ..columns import OUT_OF_MEMORY, SAME, is_copied
from ..predict.attempts import spent
from ..predict.recommend import recommend_limit
from ..store.packed import Packed
from ..store.peaks import asked_a_node, node_peak
from .advice import RISK, SAMPLED, Rules, of_partition
from .answers import median
from .hidden import DAY_S, rounded
from .memory import as_request
from .usage import LEAST_JOBS

GIB = 1024.0**2
MOST_JOBS = 1000
LEAST_GIB_H = 10.0
"""What is spared below this is no advice."""
MOST_OFTEN = 0.2
"""Where so many run out of memory they are shown, whatever is spared."""


def memory_advice(rows: Packed, memory: Mapping[str, Any], rules: Rules, least: int) -> list[dict[str, Any]]:
    """One flat object for each account and application, what spares most first.

    Parameters
    ----------
    rows
        Ended jobs whose memory was measured, or that ran out of it (the statement `used_memory`).
    memory
        What the collector remembers: the memory of a partition's nodes.
    rules
        The site's least request and its step.
    least
        The fewest users that a figure may be of; above one every number has two digits (`disclosure`).
    Returns
    -------
    list of dict
        `account`, `name`, `users`, `jobs`; KiB a node: `asked_kib` and `held_kib` (medians), `ask_kib` the request that
        95 % of the last 1,000 jobs keep to, as `--mem` takes it in `flag`; `ran_out_rate`; `gib_h` what would have been
        spared by asking so (below 0: lost), and `by_request_gib_h` what was asked for, each with further attempts;
        `tells`: so much is spared, or so many ran out, that it is worth a word.

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
    return sorted(figures, key=lambda one: -one["gib_h"])


def _up(kib: float) -> float:
    """A request in MiB of two digits, not below what is needed.

    >>> _up(4301.0 * 1024) / 1024, _up(4300.0 * 1024) / 1024
    (4400.0, 4300.0)
    """
    digit = 10.0 ** (math.floor(math.log10(kib / 1024)) - 1)
    return math.ceil(kib / 1024 / digit - 1e-9) * digit * 1024


class _Job(NamedTuple):
    """A measured job: epoch seconds; KiB a node that it held (or got, where that was not enough) and asked for."""

    submit_time: float
    end_time: float
    held: float
    asked: float
    ran_out: bool
    node_hours: float


def _measured(rows: Sequence[Mapping[str, Any]]) -> list[_Job]:
    """Those among ended jobs whose request is known too, by their end."""
    jobs = []
    for row in rows:
        held, asked, out = node_peak(row), asked_a_node(row), row["status"] == OUT_OF_MEMORY
        held = asked if out and not held > asked else held
        if held > 0 and asked > 0:
            hours = max(row["alloc_nodes"] or 1.0, 1.0) * (row["end_time"] - row["start_time"]) / 3600.0
            jobs.append(_Job(row["submit_time"], row["end_time"], held, asked, out, hours))
    return sorted(jobs, key=lambda job: job.end_time)


def _of_group(rows: Sequence[Mapping[str, Any]], memory: Mapping[str, Any], rules: Rules) -> dict[str, Any] | None:
    """Of jobs that are alike; None where they are too few, or nothing was measured."""
    jobs = _measured(rows)
    same = sum(not job.ran_out and abs(job.held - job.asked) <= SAME * job.held for job in jobs)
    if len(jobs) < LEAST_JOBS or is_copied(same, len(jobs)):
        return None
    partitions = {row["partition_id"] for row in rows}
    node = max(of_partition(memory, name).get("node_mem_kib") or math.inf for name in partitions)
    by_request = sum(_cost(job, job.asked) for job in jobs)
    spared = by_request - _as_advised(jobs, rules, node)
    out = sum(job.ran_out for job in jobs)
    return {
        "jobs": len(jobs),
        "asked_kib": median(job.asked for job in jobs),
        "held_kib": median(job.held for job in jobs),
        "ask_kib": _request(jobs[-MOST_JOBS:], rules, node),
        "ran_out_rate": out / len(jobs),
        "gib_h": spared,
        "by_request_gib_h": by_request,
        "tells": spared >= LEAST_GIB_H or out >= max(2.0, MOST_OFTEN * len(jobs)),
    }


def _as_advised(jobs: Sequence[_Job], rules: Rules, node: float) -> float:
    """What these jobs, by their end, would have cost as they would have been advised on the day of their submission."""
    total, ended = 0.0, 0
    by_submission = sorted(jobs, key=lambda job: job.submit_time)
    for day, of_day in groupby(by_submission, key=lambda job: job.submit_time // DAY_S):
        while ended < len(jobs) and jobs[ended].end_time < day * DAY_S:
            ended += 1
        known = jobs[max(ended - MOST_JOBS, 0) : ended]
        advised = _request(known, rules, node) if len(known) >= LEAST_JOBS else None
        total += sum(_cost(job, job.asked if advised is None else advised) for job in of_day)
    return total


def _request(jobs: Sequence[_Job], rules: Rules, node: float) -> float:
    """The request a node that keeps the risk for jobs like these, KiB."""
    held, ran_out = [job.held * SAMPLED for job in jobs], [job.ran_out for job in jobs]
    floor, step = rules.memory_floor, rules.memory_step
    return recommend_limit(held, ran_out, RISK, floor=floor, step=step, most=node).limit_s


def _cost(job: _Job, request: float) -> float:
    """GiB-hours of a job's attempts under a request: where it runs out, its user's own next, else twice as much."""
    short = job.ran_out and request <= job.held
    again = job.asked if job.asked >= job.held else math.nan
    return spent(request, math.nextafter(job.held, math.inf) if short else job.held, again) * job.node_hours / GIB
