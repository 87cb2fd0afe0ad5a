"""Make a store like a collector's after three weeks, from a synthetic log: python -m tools.demo_site STORE [--looks].

With `--steady` the collector last ran at noon of the last Monday, so that stores made in any week have equal
predictions and outcomes.
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np

from batchcast.formats.sighting import Field, Sighting
from batchcast.service.answers.model_store import make_predictors
from batchcast.service.collector.clock import StoredClock, compare_with_slurm
from batchcast.service.settings import load
from batchcast.store import clock_jobs, history
from batchcast.store.database import Store
from batchcast.store.place import clock_path
from batchcast.table import Trace
from batchcast.trace.synth import Recipe, make_log

NAMES = ("relax", "bands", "phonons", "train", "postproc", "mesh", "assembly", "mdrun")
REASONS = ("Priority", "Priority", "Resources", "QOSMaxJobsPerUserLimit", "Dependency", "BeginTime")
PEOPLE = ("ada", "bela", "carl", "dora", "emil", "fritz", "gerda", "hanna", "ivo", "jana", "kurt", "lene")
GIB = 1024.0**2
OVER = ("COMPLETED", "TIMEOUT", "OUT_OF_MEMORY")
HOLDS = {"train": 2.0, "mesh": 1.3, "mdrun": 0.5, "postproc": 0.3}
"""Memory per node relative to the other applications."""
NODE = {"procs": 1024.0, "node_mem_kib": 256.0 * GIB}
PARTITIONS = {
    "main": {"default_time_s": 3600.0, "max_time_s": 172800.0, "is_default": 1.0, **NODE},
    "long": {"default_time_s": 3600.0, "max_time_s": 604800.0, "is_default": 0.0, **NODE},
}
GPU_TYPES = ("a100", "v100")
"""GPUs of the jobs called `train` in the partition `long`, by user; each has 64 processors for a GPU."""
FORECAST = "forecast:window=1000,first=500,every=500,step=50"
LOOKED_AT_S, LOOK_EVERY_S = 3 * 86400.0, 1800.0
GATHERS = {"Type": "jobacct_gather/linux", "Frequency": "30", "Params": ""}


def sightings(log: Trace, now: float, seed: int) -> list[Sighting]:
    """Return the log's jobs as a batch system shows them at an instant three quarters through the log."""
    rng = np.random.default_rng(seed)
    submit, wait, run = (log.number(name) for name in ("submit_time", "wait_time", "run_time"))
    shift = now - float(np.quantile(submit, 0.75))
    limits, procs = log.number("req_time"), log.number("req_procs")
    users = [hash_of(name) for name in log["user_id"]]
    seen = []
    for k in range(len(log)):
        at = round(float(submit[k]) + shift)
        if at > now:
            continue
        start, end = at + float(wait[k]), at + float(wait[k]) + float(run[k])
        state = "PENDING" if start > now else "RUNNING" if end > now else "COMPLETED"
        if state == "COMPLETED" and run[k] >= limits[k]:
            state = "TIMEOUT"
        user = users[k]
        name = NAMES[(user * 3 + int(procs[k]) % 3) % len(NAMES)]
        node_gib = 4.0 + user % 3 * 4.0
        asked: dict[str, float | str | None] = {
            "user_id": PEOPLE[user % len(PEOPLE)],
            "account": f"group{user % 4}",
            "partition_id": "long" if limits[k] > 43200 else "main",
            "req_time": float(limits[k]),
            "req_procs": float(procs[k]),
            "req_nodes": math.ceil(float(procs[k]) / 64),
            "req_mem_kib": math.ceil(float(procs[k]) / 64) * node_gib * GIB,
            "job_name": name,
        }
        if name == "train" and limits[k] > 43200:
            asked |= {"req_gpus": asked["req_nodes"], "gpu_type": GPU_TYPES[user % 2]}
        waits = state == "PENDING"
        held_gib = 0.0 if waits else float(rng.gamma(4.0, 0.35)) * HOLDS.get(name, 1.0)
        if state == "COMPLETED" and held_gib > node_gib:
            state, held_gib = "OUT_OF_MEMORY", node_gib
        seen.append(
            Sighting(
                str(10_000 + k),
                str(10_000 + k),
                at,
                state,
                start_time=math.nan if waits else start,
                end_time=end if state in OVER else math.nan,
                expected_start=start + 3600 * float(rng.exponential()) if waits else math.nan,
                reason=str(rng.choice(REASONS, p=(0.45, 0.25, 0.2, 0.04, 0.03, 0.03))) if waits else "",
                eligible_time=now + 7200 if waits else math.nan,
                requested=asked,
                allocated={} if waits else _held(state, float(procs[k]), held_gib * GIB),
            )
        )
    return seen


def _held(state: str, procs: float, node_kib: float) -> dict[str, Field]:
    """Return the resources of a job; for an ended job also its peak memory."""
    nodes = float(math.ceil(procs / 64))
    held: dict[str, Field] = {"alloc_procs": procs, "alloc_nodes": nodes}
    return held | {"used_mem_kib": nodes * node_kib} if state in OVER else held


def hash_of(name: object) -> int:
    """Return a user's number, from the name."""
    return int("".join(filter(str.isdigit, str(name))) or 0)


def _keep(store: Store, clock: StoredClock) -> None:
    """Save the learned state beside the store, as a collector does, once the last model is fitted."""
    while True:
        with store.begin() as connection:
            kept = clock.to_keep(connection)
        if kept is not None:
            break
        time.sleep(0.05)
    if trouble := "; ".join(filter(None, clock.save(kept).values())):
        print(f"not kept: {trouble}", file=sys.stderr)


def last_monday(now: float) -> float:
    """Return noon of the last Monday, UTC."""
    noon = 4 * 86400 + 43200  # noon of the first Monday of 1970
    return now - (now - noon) % (7 * 86400)


def build(
    path: str, jobs: int = 5000, seed: int = 7, private: bool = False, looks: bool = False, steady: bool = False
) -> None:
    """Write the store; the last three weeks have predictions; with `looks` they were renewed in the last days."""
    now = last_monday(time.time()) if steady else time.time()
    recipe = replace(Recipe(), jobs=jobs, procs=1024, load=0.6)
    seen = sightings(make_log(np.random.default_rng(seed), recipe), now, seed)
    wait = f"{FORECAST},recent_wait"
    settings = load({"store": path, "wait": wait, "runtime": "recent_mean"}, {})

    def made() -> dict[tuple[str, str], Any]:
        return make_predictors(*(settings[kind] for kind in ("runtime", "wait", "memory", "limits")))

    store = Store(path, create=True)
    site = {"private": private, "partitions": PARTITIONS, "version": "22.05", "gathers": GATHERS}
    with store.begin() as connection:
        history.take_in(connection, "demo", seen, now)
        clock_jobs.write_meta(
            connection, "demo", site=site, cycle_at=now, snapshot_at=now, interval_s=30.0, total_procs=1024.0,
            collected_by="batchcast", runtime_methods=[settings["runtime"]],
            memory_methods=settings["memory"].split(","),
            limit_methods=settings["limits"].split(","),
            wait_methods=[method for kind, method in made() if kind == "wait"],
            health={"slurmctld": {"calls": 900, "failures": 2}},
        )  # fmt: skip
    clock = StoredClock("demo", made, path=clock_path(path, "demo"))
    for until in (*np.arange(now - LOOKED_AT_S, now, LOOK_EVERY_S), now) if looks else (now,):
        with store.begin() as connection:
            clock.advance(connection, float(until), float(until), now - 21 * 86400)
    with store.begin() as connection:
        compare_with_slurm(connection, "demo", now)
    _keep(store, clock)
    store.close()
    print(f"{len(seen)} jobs, seed {seed}, in {path}", file=sys.stderr)


if __name__ == "__main__":
    given = {name: f"--{name}" in sys.argv for name in ("private", "looks", "steady")}
    build(sys.argv[1], **given)
