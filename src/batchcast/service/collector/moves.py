# SPDX-License-Identifier: Apache-2.0
"""Stores each large change of a waiting job's predicted start, with the events that explain the change.

The explanation uses only the queue and the running jobs, not the predictor: it names the events that freed or used the
most processor-seconds, compared with the predicted run times.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from ...formats.sighting import NodeAway
from ...formats.slurm.resources import fold
from ...predict.conditional import given_waited
from ...predict.protocol import Prediction
from ...store import clock_jobs
from ...store.database import Connection
from ..answers.start import length_of

LEAST_S, LEAST_SHARE = 300.0, 0.1
"""A start has moved if it differs from the stored answer by this many seconds and this share of the remaining wait."""
PAUSE_SHARE = 0.05
"""The answer for a job is stored again only after this share of its wait has passed."""
EXPLAINED = 20.0
"""Jobs that end early or late explain a moved start only if it moved by at most this many times their own difference. A
job that ends two minutes late does not delay another job by a day and a half.
"""
BACK_S = 86400.0
"""The return of a node to service is stored for this many seconds."""
Row = Mapping[str, Any]
NO_NODES: Mapping[str, Any] = {}


class StartTimes(NamedTuple):
    """The present prediction for a waiting job: its row, and submit time, likely start and 90 % start in epoch
    seconds.
    """

    row: int
    submit: float
    likely: float
    by_90: float


def start_times(row: int, submit: float, said: Prediction, now: float) -> StartTimes:
    """Return the likely and the 90 % start of a job that has waited since `submit`, from its newest prediction."""
    given = given_waited(said, max(now - submit, 0.0), (0.5, 0.9))
    return StartTimes(row, submit, submit + given.point, submit + (given.quantiles[1] if given.levels else math.nan))


def remember(connection: Connection, cluster: str, answers: Iterable[StartTimes], now: float) -> dict[int, str | None]:
    """Store the predicted starts that have moved, with the reasons. Return the reason of the last move for each row, as
    JSON.
    """
    last, why, new, moved = clock_jobs.last_moves(connection, cluster), {}, [], []
    for answer in answers:
        before = last.get(answer.row)
        why[answer.row] = None if before is None else before["why"]
        if before is None:
            new.append(_row_of(answer, now, None))
        elif has_moved(before, answer, now):
            moved.append((before, answer))
    if moved:
        nodes = clock_jobs.read_meta(connection, cluster).get("nodes") or {}
        jobs = clock_jobs.happened(connection, cluster, min(before["as_of"] for before, _ in moved))
        of = {job["row"]: job for job in jobs}
        spans: dict[tuple[float, Any], Span] = {}
        for before, answer in moved:
            mine = of.get(answer.row, {})
            key = before["as_of"], mine.get("partition_id")
            if key not in spans:
                spans[key] = Span([job for job in jobs if job["partition_id"] == key[1]], key[0], now)
            by = answer.likely - before["likely_start"]
            changed = _changed_nodes(nodes, key[1], before["as_of"], answer, by < 0)
            reason = spans[key].reason(mine.get("priority"), by < 0, changed)
            if "seconds" in reason and abs(by) > EXPLAINED * reason["jobs"] * reason["seconds"]:
                reason = {"cause": ""}
            if not reason["cause"] and before["likely_start"] <= now and by > 0:
                reason = {"cause": "passed"}
            why[answer.row] = json.dumps({"by_s": by, "since": before["as_of"], **reason})
            new.append(_row_of(answer, now, why[answer.row]))
    clock_jobs.keep_moves(connection, cluster, new)
    return why


def note_nodes(connection: Connection, cluster: str, away: Iterable[NodeAway], now: float) -> None:
    """Store which nodes are down or drained, which nodes returned in the last day, and since when."""
    noted = clock_jobs.read_meta(connection, cluster).get("nodes")
    before = noted or {}
    nodes: dict[str, dict[str, Any]] = {}
    for one in away:
        known = before.get(one.node)
        first = 0.0 if noted is None else now  # at the first query it is unknown since when the node is down
        since = known["at"] if known and known["away"] else first
        here = nodes.setdefault(one.node, {"away": True, "at": since, "procs": one.procs, "in": []})
        here["in"].append(one.partition)
    for name, known in before.items():
        if name not in nodes and (known["away"] or known["at"] > now - BACK_S):
            nodes[name] = {**known, "away": False, "at": now if known["away"] else known["at"]}
    if nodes != noted:
        clock_jobs.write_meta(connection, cluster, nodes=nodes)


def nodes_away(connection: Connection, cluster: str) -> frozenset[str]:
    """Return the nodes that were down or drained at the last query."""
    noted = clock_jobs.read_meta(connection, cluster).get("nodes") or {}
    return frozenset(name for name, node in noted.items() if node["away"])


def _changed_nodes(
    nodes: Mapping[str, Mapping[str, Any]], partition: str | None, since: float, answer: StartTimes, sooner: bool
) -> dict[str, Any]:
    """Return the partition's nodes that went down after `since` (for a sooner start: nodes that returned), with the
    work that they could do.

    For a later start, nodes that have been down longer are also named, but without work.
    """
    here = {
        name: node
        for name, node in nodes.items()
        if partition in node["in"] and node["away"] is not sooner and node["at"] > (since if sooner else answer.submit)
    }
    new = {name: node for name, node in here.items() if node["at"] > since}
    work = sum(node["procs"] * max(answer.likely - node["at"], 0.0) for node in new.values())
    names = sorted(new or here, key=lambda name: (len(name), name))
    return {"nodes": fold(names), "count": len(names), "work": work} if names else {}


def has_moved(before: Row, answer: StartTimes, now: float) -> bool:
    """Return whether the likely start differs enough from the stored answer.

    >>> before = {"as_of": 0.0, "likely_start": 7200.0}
    >>> [has_moved(before, StartTimes(1, 0.0, likely, math.nan), 600.0) for likely in (7300.0, 9000.0, 5000.0)]
    [False, True, True]
    """
    if not math.isfinite(answer.likely) or now - before["as_of"] < max(LEAST_S, PAUSE_SHARE * (now - answer.submit)):
        return False
    least = max(LEAST_S, LEAST_SHARE * (before["likely_start"] - now))
    return bool(abs(answer.likely - before["likely_start"]) >= least)


def _row_of(answer: StartTimes, now: float, why: str | None) -> dict[str, Any]:
    """Return a predicted start as a row of the table `moves`."""
    by_90 = answer.by_90 if math.isfinite(answer.by_90) else None
    return {"row": answer.row, "as_of": now, "likely_start": answer.likely, "by_90_start": by_90, "why": why}


class Span:
    """The events in one partition between two instants, which explain why a predicted start moved.

    >>> job = {"row": 1, "submit_time": 0.0, "start_time": 0.0, "end_time": 600.0, "priority": 5.0, "req_procs": 512.0,
    ...        "alloc_procs": None, "req_time": 11400.0, "run_point_s": None}
    >>> Span([job], 300.0, 900.0).reason(1.0, sooner=True)
    {'cause': 'early', 'jobs': 1, 'procs': 512.0, 'seconds': 10800.0}
    """

    def __init__(self, jobs: Sequence[Row], since: float, now: float) -> None:
        self.early, self.late = [], []
        came, left = [], []
        for job in jobs:
            start, end, procs = job["start_time"], job["end_time"], job["alloc_procs"] or job["req_procs"] or 1.0
            if start is not None:
                due = start + length_of(job)
                if end is not None and since < end <= now and due - end >= 60.0:
                    self.early.append((procs * (due - end), procs, due - end))
                elif end is None and since < due <= now:
                    self.late.append((procs * (now - due), procs, now - due))
            if job["priority"] is not None and math.isfinite(length_of(job)):
                above = job["priority"], procs * length_of(job)
                if since < job["submit_time"] <= now:
                    came.append(above)
                elif start is None and end is not None and since < end <= now:
                    left.append(above)
        self.came, self.left = _Above(came), _Above(left)

    def reason(self, priority: float | None, sooner: bool, nodes: Mapping[str, Any] = NO_NODES) -> dict[str, Any]:
        """Return the main cause of a predicted start's move, for a job of this priority; empty if no event explains the
        move.
        """
        ran = self.early if sooner else self.late
        jobs, work = (self.left if sooner else self.came).than(priority)
        done = sum(weight for weight, _, _ in ran)
        if nodes and nodes["work"] >= max(work, done):
            return {"cause": "back" if sooner else "nodes", "nodes": nodes["nodes"], "jobs": nodes["count"]}
        if jobs and work >= done:
            return {"cause": "left" if sooner else "came", "jobs": jobs}
        if ran:
            _, procs, seconds = max(ran)
            return {"cause": "early" if sooner else "late", "jobs": len(ran), "procs": procs, "seconds": seconds}
        return {"cause": ""}


class _Above:
    """Jobs in order of priority, to find the number and the work of the jobs above a priority."""

    def __init__(self, jobs: list[tuple[float, float]]) -> None:
        jobs.sort()
        self.priorities = [priority for priority, _ in jobs]
        self.work = [0.0, *accumulate(work for _, work in jobs)]

    def than(self, priority: float | None) -> tuple[int, float]:
        """Return the number and the work of the jobs above `priority`; zero if `priority` is unknown."""
        at = len(self.priorities) if priority is None else bisect_right(self.priorities, priority)
        return len(self.priorities) - at, self.work[-1] - self.work[at]
