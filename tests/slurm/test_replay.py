"""Replays a workload on a real Slurm under an accelerated clock with the collector beside it, undisturbed and under
faults."""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import postgres_lab
import pytest
from conftest import absent
from follow import Follower, stored, truth
from slurm_lab import USERS, Lab
from workload import Planned, plan, span_at, submit

from batchcast.events.live import LiveClock
from batchcast.events.recorded import events, replay
from batchcast.predict.registry import make
from batchcast.store.database import Store
from batchcast.store.history import to_trace
from batchcast.store.reader import Reader
from batchcast.table import Trace
from batchcast.trace.parquet import read_parquet, write_parquet

pytestmark = [pytest.mark.slurm]
SPEED = 60.0
FAST_PATIENCE = f"&connect_timeout={60 * SPEED:.0f}"
"""libpq counts seconds of the fast clock."""
NODES = 4
JOBS = 30
KILLS = 10
RUNTIME = ("recent_mean", "last_2")
WAIT = ("forecast", "recent_wait", "qbets", "log_uniform", "pqstar", "ibl", "scheduler_replay")
UNDESCRIBED = "none"
"""The collector captures no machine, because a replay of the log could not know at which submission that happened."""
METHODS = {"RUNTIME": ",".join(RUNTIME), "WAIT": ",".join(WAIT)}


def methods() -> dict[tuple[str, str], Any]:
    """Return new predictors by kind and name."""
    return {("runtime", m): make("runtime", m) for m in RUNTIME} | {("wait", m): make("wait", m) for m in WAIT}


@contextlib.contextmanager
def calm(
    jobs: int = JOBS, store: str | None = None, on_nodes: bool = False, load: float | None = None
) -> Iterator[Follower]:
    """Run the replay without faults, into a new SQLite file or the given store; on the nodes as captured, with a load
    or one job every 70 s."""
    with Lab(nodes=NODES, cpus=2, speed=SPEED) as lab:
        follower = Follower(lab, store or str(lab.root / "store.db"), **METHODS, MACHINE=UNDESCRIBED)
        if on_nodes:
            follower.env["BATCHCAST_MACHINE"] = str(lab.root / "machine.toml")
            follower.run("machine", "capture", "-o", follower.env["BATCHCAST_MACHINE"])
        begin(follower)

        def ask(k: int) -> None:
            if k > jobs // 2 and k % (jobs // 10) == 0:
                follower.answers += follower.run("start", "-u", USERS[k % 2], "--start", check=False)

        span = jobs * 70.0 if load is None else span_at(load, jobs, 7, nodes=NODES)
        submit(lab, plan(jobs, 7, nodes=NODES, span=span), ask)
        finish(follower)
        yield follower


@contextlib.contextmanager
def troubled(jobs: int = JOBS, kills: int = KILLS) -> Iterator[Follower]:
    """Run the replay with kills of the collector, restarts of both daemons, and a store whose disk is full for a
    while."""
    with Lab(nodes=NODES, cpus=2, speed=SPEED) as lab, small_disk(lab.root / "disk") as disk:
        follower = Follower(lab, str(disk / "store.db"), **METHODS, MACHINE=UNDESCRIBED)
        begin(follower)
        planned = plan(jobs, 11, nodes=NODES, span=jobs * 70.0, holds=False)
        submit(lab, planned, Trouble(follower, disk, planned, kills))
        follower.kill()
        follower.start()
        finish(follower)
        yield follower


class Trouble:
    """The faults, spread over the submissions; each pause waits for a condition, not for a time."""

    def __init__(self, follower: Follower, disk: Path, planned: list[Planned], kills: int) -> None:
        rng = np.random.default_rng(5)
        n = len(planned)
        self.follower, self.disk = follower, disk
        self.kills = set(rng.choice(np.arange(1, n - 1), kills, replace=False).tolist())
        self.at = {
            n // 5: self.without_slurmdbd,
            2 * n // 5: self.back_slurmdbd,
            n // 2: self.restart_slurmctld,
            3 * n // 5: self.fill,
            4 * n // 5: self.empty,
        }

    def __call__(self, k: int) -> None:
        if k in self.at:
            self.at[k]()
        if k in self.kills:
            self.follower.kill(signal.SIGKILL)
            self.follower.start()

    def without_slurmdbd(self) -> None:
        self.follower.lab.stop("slurmdbd")

    def back_slurmdbd(self) -> None:
        self.follower.lab.start_slurmdbd()

    def restart_slurmctld(self) -> None:
        self.follower.lab.stop("slurmctld")
        self.follower.lab.start_slurmctld()

    def fill(self) -> None:
        """Check that nothing more can be written, and that the restarted collector has logged it (an existing log could
        be reused)."""
        self.follower.kill(signal.SIGTERM)
        with (self.disk / "ballast").open("wb", buffering=0) as ballast:
            for size in (65536, 512):
                try:
                    while True:
                        ballast.write(b"x" * size)
                except OSError:
                    continue
        seen = self.words()
        self.follower.start()
        self.follower.lab.wait(lambda: self.words() > seen, f"word of the full disk\n{self.follower.tail()}", 120)

    def empty(self) -> None:
        """Free the disk; start a collector that could not start, as systemd would."""
        (self.disk / "ballast").unlink()
        self.follower.kill(signal.SIGTERM)
        self.follower.start()

    def words(self) -> int:
        """Return how often the collector logged that the disk is full."""
        return self.follower.log.read_text(errors="replace").count("is full")


class small_disk:
    """A file system of 24 MB; if mounting is not allowed, the test that needs it says so."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __enter__(self) -> Path:
        self.place.mkdir(parents=True)
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(self.place)], capture_output=True, text=True
        )
        if done.returncode:
            absent(f"a small file system cannot be mounted here: {done.stderr.strip()}")
        return self.place

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "-l", str(self.place)], check=False, capture_output=True)


def begin(follower: Follower) -> None:
    """Wait for the collector's first cycle, after which it makes predictions.

    Kernels are compiled before, because half a minute of compilation is half an hour of the fast clock.
    """
    rows = range(40)
    trace = Trace.from_arrays(
        {
            "job_id": [int(k) for k in rows],
            "submit_time": [10.0 * k for k in rows],
            "wait_time": [50.0 + k for k in rows],
            "run_time": [100.0 - k for k in rows],
            "req_procs": [1.0 + k % 2 for k in rows],
            "req_time": [600.0 for _ in rows],
            "user_id": [USERS[k % 2] for k in rows],
        }
    )
    replay(trace, methods(), total=8.0)
    clock = LiveClock(methods(), 8.0)
    for event in events(trace):
        clock.tell(event)
    follower.start()
    follower.lab.wait(lambda: "live_since" in memory(follower), f"first look\n{follower.tail()}")


def finish(follower: Follower) -> None:
    """Wait until every job has ended in Slurm, in sacct and in the store."""
    lab = follower.lab
    lab.wait(lambda: not lab.run("squeue", "-h", "-t", "PD,R,CG,S").strip(), "empty queue", 600)
    lab.wait(
        lambda: not lab.run("sacct", "-a", "-X", "-n", "-s", "PD,R", "-S", "2020-01-01").strip(),
        "accounting's last word",
        180,
    )
    ended = len(truth(lab))
    counts = "SELECT count(*) AS n, sum(open) AS open, sum(CASE WHEN told < 4 THEN 1 ELSE 0 END) AS untold FROM jobs"
    lab.wait(
        lambda: list(Reader(follower.store).rows(counts)[0].values()) == [ended, 0, 0],
        f"complete store\n{follower.tail()}",
        300,
    )
    follower.kill(signal.SIGTERM)


def memory(follower: Follower) -> dict[str, object]:
    try:
        return Reader(follower.store).memory("lab")
    except Exception:
        return {}


@pytest.mark.lab
@pytest.mark.usefixtures("fast_lab_possible")
def test_a_calm_replay_into_postgresql(tmp_path: Path) -> None:
    if reason := postgres_lab.missing():
        absent(reason)
    with postgres_lab.Postgres() as server, calm(store=server.fresh_database() + FAST_PATIENCE) as followed:
        check_jobs(followed)
        check_names(followed)
        check_outcomes(followed)
        check_in_time(followed)
        check_recorded_clock_agrees(followed, tmp_path)
        check_accuracy(followed)


@pytest.mark.lab
@pytest.mark.usefixtures("fast_lab_here")
def test_a_replay_under_faults(tmp_path: Path) -> None:
    with troubled() as followed:
        check_faults(followed)
        check_jobs(followed)
        check_names(followed)
        check_outcomes(followed)
        check_recorded_clock_agrees(followed, tmp_path, most_late=5)


def check_jobs(followed: Follower) -> None:
    """Check that the store has every job once, with the times of sacct."""
    kept = [
        (
            j["job_id"],
            j["submit_time"],
            -1.0 if j["start_time"] is None else j["start_time"],
            j["start_time"],
            j["end_time"],
            j["status"],
        )
        for j in stored(followed.store)
    ]
    known = sorted((*key, *value) for key, value in truth(followed.lab).items())
    assert sorted(kept, key=str) == sorted(known, key=str)


def check_names(followed: Follower) -> None:
    """Check that names are as submitted, with newlines and 4-byte characters; a name that only sacct showed has `
    instead of "."""
    from workload import NAMES

    assert {j["job_name"] for j in stored(followed.store)} <= {*NAMES, *(n.replace('"', "`") for n in NAMES)}


def check_outcomes(followed: Follower) -> None:
    """Check that every job had its predictions, each with its outcome. The jobs' names are new, so few or none get a
    suggested limit."""
    rows = Reader(followed.store).rows("SELECT * FROM forecast_outcomes")
    jobs = {j["row"]: j for j in stored(followed.store)}
    issued = {(r["row"], r["kind"], r["method"]) for r in rows if r["moment"] == "submit"}
    wanted = [*itertools.product(["runtime"], RUNTIME), *itertools.product(["wait"], WAIT)]
    advised = {one for one in issued if one[1] == "limit"}
    assert issued - advised == {(row, *which) for row, which in itertools.product(jobs, wanted)}
    assert len(issued) == sum(r["moment"] == "submit" for r in rows), "each once"
    for r in rows:
        job = jobs[r["row"]]
        ran, of_wait = job["start_time"] is not None, r["kind"] == "wait"
        assert r["resolution"] == (("started" if of_wait else "ended") if ran else "withdrawn")
        first, last = ("submit_time", "start_time") if of_wait else ("start_time", "end_time")
        assert r["outcome_s"] == (job[last] - job[first] if ran else None)


def check_in_time(calm: Follower) -> None:
    """Check that each prediction was made within two cycles of the submission, and so in time for jobs that waited
    longer."""
    rows = Reader(calm.store).rows(
        "SELECT f.issued_at, j.submit_time, j.start_time FROM forecasts f JOIN jobs j ON j.row = f.row WHERE "
        "f.moment = 'submit'"
        " AND f.kind = 'wait' AND j.start_time - j.submit_time > 900"
    )
    assert rows
    assert all(r["issued_at"] < r["start_time"] for r in rows)


def check_recorded_clock_agrees(followed: Follower, tmp_path: Path, most_late: int = 0) -> None:
    """Check that a replay of the exported log gives the collector's predictions bit by bit.

    If slurmctld and slurmdbd are restarted, the collector may learn of an event after its clock has passed that
    instant. The collector counts these late events (`doctor` shows them); predictions made meanwhile could not know
    them, so with any late event only the number of predictions is compared. The log is exported `--as-told`, because
    Slurm extends a finished run until its requeue, which was unknown when the collector read it.
    """
    store = Store(followed.store)
    with store.begin() as connection:
        write_parquet(to_trace(connection, "lab", as_told=True), tmp_path / "log.parquet")
    trace = read_parquet(tmp_path / "log.parquet")
    known = Reader(followed.store).memory("lab")
    assert known["late"] <= most_late, followed.log.read_text(errors="replace")[-20000:]
    if known["late"]:
        return
    assert (tuple(known["runtime_methods"]), tuple(known["wait_methods"])) == (RUNTIME, WAIT)
    said = replay(trace, methods(), total=known["total_procs"])
    row = {
        (str(i), s, r): k
        for k, (i, s, r) in enumerate(
            zip(trace.job_id.tolist(), trace.submit_time.tolist(), trace.number("restarts").tolist())
        )
    }
    issued = Reader(followed.store).rows(
        "SELECT f.*, j.job_id, j.submit_time, j.restarts FROM forecasts f JOIN jobs j ON j.row = f.row WHERE "
        "f.moment = 'submit' AND f.kind IN ('runtime', 'wait')"
    )
    assert len(issued) == (len(RUNTIME) + len(WAIT)) * len(trace)
    for one in issued:
        forecasts, k = said[(one["kind"], one["method"])], row[(one["job_id"], one["submit_time"], one["restarts"])]
        quantiles = [q for q in forecasts.quantiles[k].tolist() if q == q]
        assert (one["point_s"], json.loads(one["quantiles_s"]), one["basis"]) == (
            forecasts.points[k],
            quantiles,
            forecasts.basis[k],
        )


def check_accuracy(calm: Follower) -> None:
    """Check that waiting users got answers, and print coverage and error beside Slurm's own."""
    assert "LIKELY" in calm.answers
    assert "SLURM SAYS" in calm.answers
    text = calm.run("accuracy")
    assert "squeue --start" in text
    assert "recent_wait" in text
    assert "WITHIN 90%" in text


def check_faults(troubled: Follower, kills: int = KILLS) -> None:
    """Check that the disk was full and that the collector was killed as often as planned."""
    log = troubled.log.read_text(errors="replace")
    assert "is full" in log
    assert troubled.killed >= kills
