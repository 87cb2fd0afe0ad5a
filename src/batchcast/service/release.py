"""When what holds a waiting job back, other than the machine, is over: a reservation, a limit's own queue.

A limit gives so much at once (jobs, processors, nodes, licences) to a user, an account, a QOS or an array. Jobs that
hold it must end before the next may start, one after another in the order of their submission. How much the limit
gives is what its holders have now, since it is reached. When holders end is forecast by their run time, and is bounded
by their limits.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..formats.reasons import Rule, limit_of, rule, word
from ..store.reader import Reader, Row


class Release(NamedTuple):
    """When a job is held back no more, epoch seconds: likely, and at the latest; and what that is, in words."""

    likely: float
    latest: float
    until: str
    basis: str


def release(reader: Reader, cluster: str, memory: Mapping[str, Any], row: Row, now: float) -> Release | None:
    """When this waiting job is released, as far as anybody can know; None where nothing holds it back."""
    kind = rule(row["reason"] or "")
    if kind is Rule.RESERVATION:
        return _reservation(memory, row, now)
    if kind is Rule.LIMIT:
        return _limit(reader, cluster, row, now)
    return None


def _reservation(memory: Mapping[str, Any], row: Row, now: float) -> Release:
    known = [r for r in memory.get("reservations") or [] if r["start"] == r["start"] and r["end"] == r["end"]]
    own = next((r for r in known if r["name"] == row.get("reservation")), None)
    if own is not None:
        begin = max(own["start"], now)
        return Release(begin, begin, f"the beginning of reservation {own['name']}", f"reservation {own['name']}")
    ends = [r["end"] for r in known if r["end"] > now and r["maintenance"]]
    ends = ends or [r["end"] for r in known if r["end"] > now]
    if not ends and word(row["reason"]) == "ReqNodeNotAvail":  # 24.11 says "May be reserved" of drained nodes as well
        basis = "no answer until an administrator acts: nothing is reserved, so what it needs is down or drained"
        return Release(math.nan, math.nan, "an administrator's action", basis)
    if not ends:
        return Release(math.nan, math.nan, "the end of a reservation that nobody names", "a reservation")
    return Release(min(ends), max(ends), "the end of what is reserved", "the reservations that scontrol shows")


def _limit(reader: Reader, cluster: str, row: Row, now: float) -> Release:
    name = word(row["reason"])
    chosen, whose = _choice(name, row)
    jobs = reader.ask("open_with", cluster=cluster, **chosen)
    holders = [job for job in jobs if job["start_time"] is not None]
    ahead = [job for job in jobs if job["start_time"] is None and word(job["reason"] or "") == name]
    ahead = ahead[: next((k for k, job in enumerate(ahead) if job["row"] == row["row"]), len(ahead))]
    until = "the limit's own queue"
    if not holders:
        return Release(math.nan, math.nan, until, f"no running job {whose} is known that holds this limit")
    unit = _unit(name)
    times = [
        own_queue(
            [(_end(job, now, at_most), _amount(job, unit)) for job in holders],
            [(_length(job, at_most), _amount(job, unit)) for job in ahead],
            _amount(row, unit),
            now,
        )
        for at_most in (False, True)
    ]
    basis = f"{len(holders)} running and {len(ahead)} waiting jobs {whose} come first under this limit"
    return Release(times[0], max(times), until, basis)


def own_queue(
    holders: Sequence[tuple[float, float]], ahead: Sequence[tuple[float, float]], amount: float, now: float
) -> float:
    """When `amount` of what the holders have now is free, after those ahead have had theirs, first come first served.

    `holders` are (end, amount), `ahead` (length, amount); times are seconds. O(n log n).

    >>> own_queue([(100.0, 1.0)], [(50.0, 1.0), (30.0, 1.0)], 1.0, 0.0)
    180.0
    """
    ends = list(holders)
    heapq.heapify(ends)
    free, at = 0.0, now
    for length, wanted in (*ahead, (math.inf, amount)):
        while free < wanted and ends:
            end, given_back = heapq.heappop(ends)
            free, at = free + given_back, max(at, end)
        free -= min(wanted, free)
        heapq.heappush(ends, (at + length, wanted))
    return at


def _choice(name: str, row: Row) -> tuple[dict[str, Any], str]:
    """Which open jobs share the limit, as a question to the store and in words."""
    if name == "JobArrayTaskLimit":
        array = str(row["job_id"]).partition("_")[0]
        return {"tasks": f"{array}!_%"}, f"of array {array}"
    if name == "Licenses":
        licence = str(row["licenses"] or "").split(",")[0].partition(":")[0]
        pattern = licence.replace("!", "!!").replace("_", "!_").replace("%", "!%")
        return {"license": f"%{pattern}%"}, f"with licence {licence}"
    group = limit_of(name)
    column = "user_id" if group == "user" else group
    choice = {group: row[column]}
    if name.startswith("QOS") and group == "user":
        choice["qos"] = row["qos"]
    return choice, f"of this {'QOS' if group == 'qos' else group}"


def _unit(name: str) -> str:
    for part, unit in (("Cpu", "procs"), ("Node", "nodes"), ("Mem", "memory"), ("GRES", "gpus"), ("Gres", "gpus")):
        if part in name:
            return unit
    return "licenses" if name == "Licenses" else "jobs"


def _amount(job: Mapping[str, Any], unit: str) -> float:
    columns = {"procs": "req_procs", "nodes": "req_nodes", "memory": "req_mem_kib", "gpus": "req_gpus"}
    if unit == "licenses":
        count = str(job["licenses"] or "").split(",")[0].partition(":")[2]
        return float(count) if count.isdigit() else 1.0
    return 1.0 if unit == "jobs" else float(job[columns[unit]] or 1.0)


def _length(job: Mapping[str, Any], at_most: bool) -> float:
    """How long a job runs: as forecast, or as long as it may."""
    limit = job["limit_now"] if job["limit_now"] is not None else job["req_time"]
    longest = math.inf if limit is None else float(limit)
    return longest if at_most or job["run_point_s"] is None else min(float(job["run_point_s"]), longest)


def _end(job: Mapping[str, Any], now: float, at_most: bool) -> float:
    """When a running job ends; one that has outlived its forecast is taken to last half of what its limit leaves."""
    begun = float(job["start_time"])
    latest, likely = max(begun + _length(job, True), now), begun + _length(job, False)
    if at_most or likely > now:
        return latest if at_most else likely
    return (now + latest) / 2 if math.isfinite(latest) else now
