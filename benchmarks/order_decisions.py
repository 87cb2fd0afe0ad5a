"""A lab's run decision by decision: what the simulated Slurm does from the lab's own state, limits, factors and cycles.

    python benchmarks/order_gain.py --seeds 3 --jobs 300 --load 2 --arms limits,order -o kept.jsonl --keep kept
    python benchmarks/order_decisions.py kept.jsonl kept/3-2-limits.log --every 2000
    python benchmarks/order_decisions.py kept.jsonl kept/3-2-order.log --every 2000

First line: all earlier starts as recorded, of how many does the simulated Slurm start the same job next, within half a
minute, and on the same nodes. Table: the lab's starts up to an instant, then the simulated Slurm's; the mean wait of
all jobs in the end, over draws of when the later backfill cycles come. Limits and SiteFactors change when they changed
in the lab; a running job gets its user's limit back as long after its start as there.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from planning_gain import _machine, _row, _trace, show, workload

from batchcast.compiled import kernel
from batchcast.schedule.slurm.arrays import FAR, NONE, RUNNING
from batchcast.schedule.slurm.priority import reprioritize
from batchcast.schedule.slurm.requests import Phases
from batchcast.schedule.slurm.start import list_by_end, run_order, stop_order, unlist
from batchcast.simulation.on_nodes import requests_of

clock: Any = importlib.import_module("batchcast.schedule.slurm.simulate")
NEAR_S = 35.0
"""A cycle's time and a little more."""
LOOK_S = 1.0
"""Limits come back to the second: a cycle just before that plans the running job with another end."""
DRAWS = 10
CHANGES = ("limits", "factors")
NO_FACTOR = 2**31
"""Slurm writes a SiteFactor of 0 so."""
LINES = {
    "submit": r"submit_batch_job: JobId=(\d+) ",
    "start": r"(?:sched: Allocate JobId=(\d+) NodeList=(\S+)|_start_job: Started JobId=(\d+) in \S+ on (\S+))",
    "end": r"_job_complete: JobId=(\d+) done",
    "limit": r"setting time_limit to (\d+) for JobId=(\d+)",
    "factor": r"setting AdinPrioFactor to (\d+) for JobId=(\d+)",
    "cycle": "_attempt_backfill: beginning",
    "decay": "_read_last_decay_ran",
}


class Lab(NamedTuple):
    """A run as slurmctld wrote it down, by place of the job: submission, start, end (n,), nodes; limits as (instant,
    place, s) before the start; how long after it the user's came back (n,); SiteFactors as (instant, place, factor);
    cycles; an instant of priorities' updates.
    """

    submit: np.ndarray
    start: np.ndarray
    end: np.ndarray
    nodes: list[list[int]]
    limits: list[tuple[float, int, float]]
    back: np.ndarray
    factors: list[tuple[float, int, float]]
    cycles: list[float]
    decay: float


def read(text: str) -> Lab:
    """From slurmctld's log, with DebugFlags=Backfill."""
    at: dict[str, dict[int, float]] = {"submit": {}, "start": {}, "end": {}}
    nodes, limits, factors, cycles, decay = {}, [], [], [], 0.0
    for line in text.splitlines():
        what = next(((k, m) for k, words in LINES.items() if (m := re.search(words, line))), None)
        if what is None:
            continue
        kind, found = what
        now = datetime.fromisoformat(line[1:24]).replace(tzinfo=UTC).timestamp()
        if kind == "limit":
            limits.append((now, int(found[2]), int(found[1]) * 60.0))
        elif kind == "factor":
            factors.append((now, int(found[2]), float(int(found[1]) - NO_FACTOR)))
        elif kind == "cycle":
            cycles.append(now)
        elif kind == "decay":
            decay = now
        else:
            job = int(found[1] or found[3])
            at[kind][job] = now
            if kind == "start":
                nodes[job] = _numbers(found[2] or found[4])
    ids = sorted(at["submit"])
    place = {i: k for k, i in enumerate(ids)}
    submit, start, end = (np.array([at[kind][i] for i in ids]) for kind in at)
    before = [(t, place[i], s) for t, i, s in limits if t < at["start"][i]]
    later = {place[i]: t - at["start"][i] for t, i, _ in limits if t >= at["start"][i]}
    usual = float(np.median(list(later.values()))) if later else 0.0
    back = np.array([later.get(k, usual) for k in range(len(ids))])
    placed = [(t, place[i], factor) for t, i, factor in factors]
    return Lab(submit, start, end, [nodes[i] for i in ids], before, back, placed, cycles, decay)


def _numbers(text: str) -> list[int]:
    """Places of `n3` or `n[1-2,4]`."""
    words = [w.partition("-") for w in text.strip("n[]").split(",")]
    return [k - 1 for a, _, b in words for k in range(int(a), int(b or a) + 1)]


@kernel
def retime(s: Any, j: int, end: float) -> None:
    """A running job is planned to end at `end` from now on."""
    entry = s.job[j].head
    while entry != NONE:
        i = s.pool[entry].node
        unlist(s, i, entry)
        s.pool[entry].end = end
        list_by_end(s, i, entry)
        entry = s.pool[entry].next
    stop_order(s, j)
    run_order(s, j, end)
    s.reg["dirty"][0] = 1


def looks_of(lab: Lab, places: np.ndarray, cycles: Sequence[float], until: float) -> Any:
    """In place of the package's looks: the lab's changes of limits and factors, and these cycles, at their instants."""
    back, where = lab.back[places], {int(k): j for j, k in enumerate(places)}
    changed = {name: [(t, name, where[k], x) for t, k, x in getattr(lab, name) if k in where] for name in CHANGES}
    events = sorted([*changed["limits"], *changed["factors"], *((t, "cycle", NONE, 0.0) for t in cycles)])
    events = [one for one in events if one[0] <= until]

    def looks(site: Any, jobs: Any, rules: Any, s: Any, *_: Any) -> Iterator[Any]:
        limit, row, status = jobs.row["plan"].copy(), jobs.row, s.job["status"]
        given, due, at, k = np.zeros(len(places), bool), [], float(row["submit"][0]), 0
        while at < until:
            at += LOOK_S
            while k < len(events) and events[k][0] <= at:
                t, kind, j, value = events[k]
                k += 1
                yield rules._replace(until=t)
                if kind == "cycle":
                    s.reg["cycle"][0], s.reg["dirty"][0] = t, 1
                elif status[j] < RUNNING:
                    if kind == "limits":
                        row["plan"][j] = row["held"][j] = value
                    else:
                        row["nice"][j] = -value
                    reprioritize(site, jobs, rules, s, np.arange(len(row)) == j, t)
                    clock._wake(rules, s, t)
            yield rules._replace(until=at)
            new = np.flatnonzero(~given & (status[: len(places)] == RUNNING))
            given[new] = True
            due += [(s.job["start"][j] + back[j], j) for j in new.tolist() if row["held"][j] < limit[j]]
            for _, j in [one for one in due if one[0] <= at]:
                if status[j] == RUNNING:
                    retime(s, j, float(s.job["start"][j] + limit[j]))
            due = [one for one in due if one[0] > at]
            if until >= FAR and clock._over(s):
                break
        if until >= FAR:
            yield rules

    return looks


def go_on(run: Mapping[str, Any], lab: Lab, since: float, cycles: Sequence[float], until: float = FAR) -> Any:
    """The lab's starts before `since`, the simulated Slurm's from then on up to `until`."""
    wishes = workload(run["seed"], run["jobs"], run["load"])[1]
    machine = _machine(run["machine"])
    rows = [_row(0.0, 0.0, 1.0, w.procs, w.limit, w.who) for w in wishes]
    requests = [
        replace(r, submit=float(lab.submit[int(r.key)]), run=float((lab.end - lab.start)[int(r.key)]))
        for r in requests_of(_trace(rows), machine)[0]
        if lab.submit[int(r.key)] <= until
    ]
    requests.sort(key=lambda r: r.submit)
    fixed = {
        (str(k), -1): (float(lab.start[k]), 0, tuple((node, 1) for node in lab.nodes[k]))
        for k in np.flatnonzero(lab.start < since).tolist()
    }
    kept = clock.looks
    clock.looks = looks_of(lab, np.array([int(r.key) for r in requests]), cycles, until)
    try:
        return clock.simulate_slurm(
            machine, requests, lengths=clock.Lengths(lambda r: r.limit, True, 1e-9), lazy=1, since=since,
            recorded=clock.Recorded(fixed=fixed, phases=Phases(decay=lab.decay)), placements=4000, bf_interval=1e12,
        )  # fmt: skip
    finally:
        clock.looks = kept


def next_starts(run: Mapping[str, Any], lab: Lab, each: int = 1) -> tuple[int, int, int]:
    """Of each so many-th of the lab's starts, how many the simulated Slurm makes next as well, and on the same nodes;
    of how many."""
    order, same, there = np.argsort(lab.start, kind="stable"), 0, 0
    for place in range(each - 1, len(order), each):
        k = int(order[place])
        since = float(lab.start[order[place - 1]]) + 0.01 if place else -FAR
        until = float(lab.start[k]) + 60
        made = go_on(run, lab, since, [t for t in lab.cycles if t <= until], until)
        j = next(j for j, r in enumerate(made.requests) if r.key == str(k))
        if abs(made.began[j] - lab.start[k]) <= NEAR_S:
            same += 1
            there += sorted(made.placement[made.placement[:, 0] == j, 1].tolist()) == sorted(lab.nodes[k])
    return same, there, len(order) // each


def by_instant(run: Mapping[str, Any], lab: Lab, every: float) -> list[dict[str, Any]]:
    """A row for each instant up to which the lab's starts are kept: the mean wait in the end (min)."""
    rows, first = [], float(lab.start.min())
    for since in np.arange(first, lab.start.max(), every).tolist():
        means = []
        for k in range(DRAWS):
            draws = np.random.default_rng([3, k])
            cycles = since + draws.uniform(0, 32) + np.cumsum(30 + draws.uniform(0.5, 4, 3000))
            starts = go_on(run, lab, since, cycles.tolist()).starts()
            waits = np.array([starts[str(j), -1] for j in range(len(lab.submit))]) - np.floor(lab.submit)
            means.append(float(waits.mean()) / 60)
        rows.append({
            "the lab's up to, s": round(since - first), "started by then": int((lab.start < since).sum()),
            "mean wait": float(np.mean(means)), "least": min(means), "most": max(means),
        })  # fmt: skip
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("log", type=Path, help="slurmctld's log of one of them: SEED-LOAD-ARM.log")
    parser.add_argument("--every", type=float, default=2000.0, help="0: without the table")
    parser.add_argument("--each", type=int, default=1, help="the first line by each so many-th start alone")
    given = parser.parse_args()
    seed, load, arm = given.log.stem.split("-", 2)
    asked = (int(seed), float(load), arm.replace(":", "/"))
    runs = map(json.loads, given.runs.read_text().splitlines())
    run = next(one for one in runs if (one["seed"], one["load"], one["arm"]) == asked)
    lab = read(given.log.read_text(errors="replace"))
    same, there, of = next_starts(run, lab, given.each)
    print(f"next starts the same: {same} of {of}, on the same nodes {there}; the lab's mean wait ", end="")
    print(f"{np.mean([r['start'] - r['submit'] for r in run['rows']]) / 60:.1f} min\n")
    if given.every:
        print(show(by_instant(run, lab, given.every)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
