"""Tests VASP directories submitted to a real Slurm: the collector reads their inputs, and `walltime` uses them."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import signal
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from follow import Follower
from slurm_lab import USERS, Lab

pytestmark = [pytest.mark.slurm, pytest.mark.lab]
USER = USERS[0]
SPEC = "bayesian_ridge:min_jobs=10,refit_every_jobs=10"
PATIENCE = 240.0
POSCAR = "salt\n1.0\n4 0 0\n0 4 0\n0 0 4\nNa\n1\nDirect\n0 0 0\n"
POTCAR = (
    "  PAW_PBE Na\n   1.0\n parameters from PSCTR are:\n   TITEL  = PAW_PBE Na 06Sep2000\n   LULTRA =  F\n"
    "   POMASS = 22.990; ZVAL   = 1.000    mass\n   ENMAX  = 101.968; ENMIN = 76.476 eV\n"
    "   END of PSCTR-controll parameters\n  0.25480E+02\n End of Dataset\n"
)


@pytest.fixture
def home() -> Iterator[Path]:
    """Directories of the lab's user: `short` and `long`, which differ in their cutoff, and one that must not be
    read."""
    with tempfile.TemporaryDirectory(prefix="batchcast-home-") as place:
        top = Path(place)
        top.chmod(0o755)
        owner = pwd.getpwnam(USER)
        for name, cutoff in (("short", 200), ("long", 600), ("trap", 400)):
            (top / name).mkdir()
            files = {"INCAR": f"ENCUT = {cutoff}\n", "POSCAR": POSCAR, "POTCAR": POTCAR,
                     "job.sh": "#!/bin/sh\n#SBATCH -n 1 -p main -t 60 -J relax\nsrun vasp_std\n"}  # fmt: skip
            for file, text in files.items():
                (top / name / file).write_text(text)
        (top / "trap/INCAR").unlink()
        os.mkfifo(top / "trap/INCAR")
        for path in [top, *top.rglob("*")]:
            os.chown(path, owner.pw_uid, owner.pw_gid)
        yield top


def inputs(store: str) -> dict[str, tuple[int, str | None]]:
    """Return for each job in the store whether it has left the queue by the clock's events, and its features."""
    with contextlib.closing(sqlite3.connect(store)) as database:
        try:
            rows = database.execute("SELECT job_id, told & 4, inputs FROM jobs").fetchall()
        except sqlite3.OperationalError as error:  # the collector has not created its tables yet
            raise RuntimeError(str(error)) from error
    return {job_id: (gone, features) for job_id, gone, features in rows}


def test_walltime_of_a_vasp_directory_rests_on_its_inputs(lab_here: None, home: Path) -> None:
    """All jobs have one name and one size. Jobs with the small cutoff run 1 s, jobs with the large one 6 s."""
    with Lab(nodes=4, cpus=4) as lab:
        store = str(lab.root / "inputs.db")
        follower = Follower(lab, store, interval=1.0, RUNTIME=SPEC, LIMITS=SPEC, WAIT="recent_wait:need=1", MEMORY="",
                            MACHINE="none", INPUT_ROOTS=str(home), LIMIT_FLOOR="00:00:01", LIMIT_STEP="00:00:01",
                            SETTLE_S="0.5", HISTORY_EVERY_S="2", HISTORY_DAYS="0.01")  # fmt: skip
        follower.start()
        try:
            lab.wait(lambda: Path(store).exists() and inputs(store) == {}, "a store", PATIENCE)
            jobs = {}

            def run(count: int) -> None:
                for _ in range(count):
                    for name, seconds in (("short", 1), ("long", 6)):
                        jobs[lab.submit("-n1", "-t60", f"--chdir={home / name}", seconds=seconds, name="relax")] = name
                lab.wait(lambda: len(inputs(store)) >= len(jobs) and all(gone for gone, _ in inputs(store).values()),
                         f"ends that the clock knows; {follower.tail()}", PATIENCE)  # fmt: skip

            run(10)
            trap = lab.submit("-n1", "-t60", f"--chdir={home / 'trap'}", seconds=1, name="relax")
            run(20)  # a predictor is trained at submissions, here from jobs that ended before
            known = {job: json.loads(features or "{}") for job, (_, features) in inputs(store).items()}
            assert {known[job].get("encut") for job, name in jobs.items() if name == "short"} == {200.0}
            assert {known[job].get("encut") for job, name in jobs.items() if name == "long"} == {600.0}
            assert known[trap] == {"input_files": "unreadable"}
            said = {name: json.loads(follower.run("walltime", str(home / name), "-u", USER, "--json"))["results"][0]
                    for name in ("short", "long")}  # fmt: skip
            print({name: (one["limit"], one["why"]) for name, one in said.items()})
            assert {one["limit_by"] for one in said.values()} == {SPEC}
            assert said["short"]["limit_s"] < 6 <= said["long"]["limit_s"]
            last = max(jobs, key=int)
            of_job = json.loads(follower.run("walltime", last, "-u", USER, "--json"))["results"][0]
            assert of_job["limit_s"] == said[jobs[last]]["limit_s"]
            scored = json.loads(follower.run("accuracy", "--json"))["results"]
            (share,) = {
                one["fell_back_share"] for one in scored if one["predictor"] == SPEC and one["kind"] == "runtime"
            }
            print(f"fell back: {share:.0%}")
            assert 0.0 < share < 1.0
            assert json.loads(follower.run("start", "--test", str(home / "long"), "--json"))["results"]
        finally:
            follower.kill(signal.SIGTERM)
