"""Users' verbs from sacct alone: no store, no service, no SQLAlchemy, and what they say then."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcast.formats.sighting import Sighting
from batchcast.store import history, sighted
from batchcast.store.database import Store

SACCT = """#!{python}
import sys
words = dict(word.lstrip("-").partition("=")[::2] for word in sys.argv[1:])
if "state" in words or "user" not in words:
    sys.exit(0)
fields, mark = words["format"].split(","), words["delimiter"]
for k in range(20):
    began = {now} - 80000 + 3000 * k
    job = dict(JobID=str(100 + k), JobIDRaw=str(100 + k), User=words["user"], Account="phys", Partition="main",
               State="COMPLETED", JobName="relax", Submit=str(began - 600), Eligible=str(began - 600), Start=str(began),
               End=str(began + 600), ReqCPUS="4", AllocCPUS="4", NCPUS="4", AllocNodes="1", ReqNodes="1", NNodes="1",
               TimelimitRaw="720", Timelimit="12:00:00", ElapsedRaw="600", QOS="normal", ReqMem="4G", TotalCPU="40:00",
               Group="phys", WorkDir="/home")
    print("".join(job.get(name, "") + mark for name in fields))
"""


def asked(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A verb in a Python that has no SQLAlchemy, beside a sacct that knows twenty jobs."""
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    (folder / "sacct").write_text(SACCT.format(python=sys.executable, now=int(time.time())))
    (folder / "sacct").chmod(0o755)
    code = "import sys; sys.modules['sqlalchemy'] = None; from batchcast.cli.main import entry; entry()"
    environment = {**os.environ, "PATH": f"{folder}:/usr/bin:/bin", "HOME": str(tmp_path), "TZ": "UTC",
                   "BATCHCAST_CONFIG": os.devnull, "BATCHCAST_STORE": str(tmp_path / "none.db")}  # fmt: skip
    return subprocess.run([sys.executable, "-c", code, *words], env=environment, capture_output=True, text=True,
                          check=False, timeout=120)  # fmt: skip


def test_report_and_walltime_need_no_more_than_the_core(tmp_path: Path) -> None:
    done = asked(tmp_path, "report", "-u", "ada")
    assert "--time=00:10:00 would have been enough" in done.stdout, done.stderr
    done = asked(tmp_path, "walltime", "--name", "rel*", "-u", "ada")
    assert "#SBATCH --time=00:10:00" in done.stdout, done.stderr
    assert "asked the scheduler once instead" in done.stderr
    done = asked(tmp_path, "start", "1")
    assert done.returncode != 0
    assert "doctor" not in done.stderr, "it needs what only a store needs"
    assert "squeue and sacct (qstat) must answer" in done.stderr


STATES = st.sampled_from(["PENDING", "RUNNING", "COMPLETED", "NODE_FAIL", "REQUEUED", "CANCELLED", "OUT_OF_MEMORY"])


@st.composite
def sightings(draw: st.DrawFn) -> list[Sighting]:
    """Runs of a few jobs, some of one submit second, some seen twice."""
    seen = []
    for _ in range(draw(st.integers(0, 12))):
        job_id, submit, state = str(draw(st.integers(1, 3))), float(draw(st.integers(1, 2))), draw(STATES)
        start = submit + draw(st.integers(0, 3))
        nan = float("nan")
        seen.append(
            Sighting(job_id, job_id, submit, state, start_time=nan if state == "PENDING" else start,
                     end_time=nan if state in ("PENDING", "RUNNING") else start + 5.0,
                     asked={"user_id": "ada", "req_procs": float(draw(st.integers(1, 3)))},
                     certain=draw(st.integers(0, 9)) > 0)
        )  # fmt: skip
    random.Random(len(seen)).shuffle(seen)
    return seen


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("once")


@given(seen=sightings())
def test_a_store_of_one_look_is_what_a_collector_makes_of_it(folder: Path, seen: list[Sighting]) -> None:
    for path in folder.iterdir():
        path.unlink()
    sighted.write_once(folder / "once.db", "c", seen, 50.0)
    store = Store(str(folder / "kept.db"), create=True)
    with store.begin() as connection:
        history.take_in(connection, "c", seen, 50.0)
    store.close()
    once, kept = (rows(folder / f"{name}.db") for name in ("once", "kept"))
    assert once == kept


def rows(path: Path) -> list[dict[str, object]]:
    """Every job, without its number."""
    store = sqlite3.connect(path)
    store.row_factory = sqlite3.Row
    found = store.execute("SELECT * FROM jobs ORDER BY job_id, submit_time, restarts").fetchall()
    store.close()
    return [{name: one[name] for name in one.keys() if name != "row"} for one in found]  # noqa: SIM118
