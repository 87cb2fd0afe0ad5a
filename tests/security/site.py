"""A site of two users whose figures can be recognized in any answer: a store, and servers over it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from batchcast.formats.sighting import Sighting
from batchcast.service.answers.model_store import make_predictors
from batchcast.service.collector.clock import StoredClock
from batchcast.service.settings import load
from batchcast.store import clock_jobs, history
from batchcast.store.database import Store
from batchcast.store.place import clock_path

WAITING, RUNNING, PROCS, LIMIT_S = 83, 3, 389.0, 41_940.0
"""The owner's jobs: how many wait and run, with how many processors and which time limit. No other value equals these
figures. Figures on a private site cover only complete days, so they depend on the hour of the test."""
OWNER, OTHER = "ownera", "otherb"
SECRETS = (OWNER, "secretname", "secretaccount", "secretqos", "88100", "/home/secretdir")
"""Words of the owner's jobs; their ids begin with 88100."""
FIGURES = (str(WAITING), str(WAITING + 1), str(int(PROCS)), "11:39:00", str(int(LIMIT_S)), "699")
"""The number of waiting jobs, alone and with the other user's job; the size; the limit in three spellings."""
FORECAST = "forecast:window=80,first=20,every=20,step=10"
"""A method whose model is fitted to the few jobs that exist, because its reasons count the waiting jobs."""
PARTITIONS = {"main": {"is_default": 1.0, "max_time_s": 172_800.0, "default_time_s": 3600.0, "procs": 1024.0}}


def sightings(now: float) -> list[Sighting]:
    """Sixty finished jobs of six users, three running jobs of the owner, and all waiting jobs."""
    seen = []
    for k in range(60):
        user = f"user{k % 4}" if k % 3 else (OTHER if k % 2 else OWNER)
        asked = {"user_id": user, "partition_id": "main", "req_procs": 8.0, "req_time": 7200.0, "job_name": "ordinary"}
        if user == OWNER:
            asked |= {"job_name": "secretname", "account": "secretaccount", "qos": "secretqos"}
        submit = now - 100_000.0 + 1500.0 * k
        job_id = f"8810{k:03d}" if user == OWNER else str(700 + k)
        held = {"alloc_procs": 8.0}
        seen.append(
            Sighting(
                job_id, job_id, submit, "COMPLETED", start_time=submit + 60, end_time=submit + 900 + 7 * k,
                requested=asked, allocated=held,
            )
        )  # fmt: skip
    own = {
        "user_id": OWNER, "partition_id": "main", "req_procs": PROCS, "req_time": LIMIT_S, "job_name": "secretname",
        "account": "secretaccount", "qos": "secretqos", "work_dir": "/home/secretdir",
    }  # fmt: skip
    for k in range(RUNNING):
        job_id, submit = f"881006{k:02d}", now - 5000.0 + k
        seen.append(
            Sighting(
                job_id,
                job_id,
                submit,
                "RUNNING",
                start_time=submit + 5,
                requested=own,
                allocated={"alloc_procs": 300.0},
            )
        )
    for k in range(WAITING):
        job_id = f"881007{k:02d}"
        seen.append(Sighting(job_id, job_id, now - 2000.0 + 7 * k, "PENDING", requested=own, reason="Resources"))
    other = {"user_id": OTHER, "partition_id": "main", "req_procs": 2.0, "req_time": 600.0, "job_name": "mine"}
    seen.append(Sighting("77990", "77990", now - 300.0, "PENDING", requested=other, reason="Priority"))
    return seen


def build(place: Path, private: bool, url: str = "") -> str:
    """Write the site's store at a URL, or else in a folder; return its location."""
    now = time.time()
    store = url or str(place / "store.db")
    given = {"store": store, "runtime": "recent_mean", "memory": "", "limits": "largest_recent"}
    settings = load({**given, "wait": f"{FORECAST},recent_wait:need=1"}, {})

    def made() -> dict[tuple[str, str], Any]:
        return make_predictors(settings["runtime"], settings["wait"], settings["memory"], settings["limits"])

    database = Store(store, create=True)
    site = {"private": private, "partitions": PARTITIONS, "version": "22.05"}
    with database.begin() as connection:
        history.take_in(connection, "c", sightings(now), now)
        clock_jobs.write_meta(
            connection, "c", site=site, cycle_at=now, snapshot_at=now, interval_s=30.0, total_procs=1024.0,
            collected_by="batchcast", runtime_methods=["recent_mean"], memory_methods=[],
            limit_methods=["largest_recent"], wait_methods=[FORECAST, "recent_wait:need=1"],
        )  # fmt: skip
    clock = StoredClock("c", made, path=clock_path(store, "c"))
    with database.begin() as connection:
        clock.advance(connection, now - 6000.0, now - 6000.0, now - 200_000.0)
    with database.begin() as connection:
        clock.advance(connection, now - 1.0, now, now - 200_000.0)
        kept = clock.to_keep(connection)
    assert kept is not None
    assert not any(clock.save(kept).values())
    database.close()
    return store
