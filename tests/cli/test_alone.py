"""Tests the users' verbs with sacct alone, without store, service and SQLAlchemy."""

from __future__ import annotations

import json
import os
import random
import re
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
from batchcast.sweep import read_study

SACCT = """#!{python}
import os, sys
words = dict(word.lstrip("-").partition("=")[::2] for word in sys.argv[1:])
known = "accounts allocations allusers delimiter duplicates endtime format jobs noheader parsable partition"
for word in words:
    if word not in (*known.split(), "starttime", "state", "user"):
        sys.exit(f"sacct: unrecognized option '--{{word}}'")
with open(os.environ["HOME"] + "/asked", "a") as log:
    print(*sys.argv[1:], file=log)
if words.get("user") == "refused":
    sys.exit("sacct: error: Sending PersistInit msg: Connection refused")
wanted = words["jobs"].split(",") if "jobs" in words else [str(100 + k) for k in range(20)]
if not set(words) & set(("user", "partition", "accounts", "jobs")) or not any(job[:2] == "10" for job in wanted):
    sys.exit(0)
print("sacct: warning: of a plug-in")
fields, mark = words["format"].split(","), words["delimiter"]
for k in range(20):
    if str(100 + k) not in wanted:
        continue
    began = {now} - 80000 + 3000 * k
    job = dict(JobID=str(100 + k), JobIDRaw=str(100 + k), User=words.get("user", "ada"), Account="phys",
               Partition="main", State="COMPLETED", JobName="relax", Submit=str(began - 600),
               Eligible=str(began - 600), Start=str(began),
               End=str(began + 600), ReqCPUS="4", AllocCPUS="4", NCPUS="4", AllocNodes="1", ReqNodes="1", NNodes="1",
               TimelimitRaw="720", Timelimit="12:00:00", ElapsedRaw="600", QOS="normal", ReqMem="4G", TotalCPU="40:00",
               Group="phys", WorkDir="/home")
    job["Submit"] = os.environ["SLURM_TIME_FORMAT"].replace("%s", job["Submit"])
    print("".join(job.get(name, "") + mark for name in fields))
"""


SQUEUE = """#!{python}
import os, sys
words = dict(word.lstrip("-").partition("=")[::2] for word in sys.argv[1:])
columns = [column.partition(":")[::2] for column in os.environ["SQUEUE_FORMAT2"].split(",")]
print("".join(name + mark for name, mark in columns))
for number, state in (("7", "PENDING"), ("8", "RUNNING")):
    if "jobs" in words and number != words["jobs"]:
        continue
    job = dict(JobID=number, JobArrayID=number, SubmitTime="{now}", StartTime="N/A" if number == "7" else "{now}",
               EndTime="N/A", EligibleTime="{now}", State=state, Reason="Priority", TimeLimit="10:00", NumCPUs="2",
               NumNodes="1", UserName="ada", GroupName="ada", Account="phys", Partition="main", QOS="normal",
               PriorityLong="1", NodeList="" if number == "7" else "n1", Name="relax")
    print("".join(job.get(name, "") + mark for name, mark in columns))
"""


def asked(tmp_path: Path, *words: str, squeue: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a verb without SQLAlchemy. The command's PATH contains a sacct with twenty jobs and, on request, a squeue
    with two jobs.

    The PATH contains nothing else, so that a Slurm on this machine cannot change what the tests see.
    """
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    for name, text in [("sacct", SACCT), ("squeue", SQUEUE)][: 1 + squeue]:
        (folder / name).write_text(text.format(python=sys.executable, now=int(time.time())))
        (folder / name).chmod(0o755)
    code = "import sys; sys.modules['sqlalchemy'] = None; from batchcast.cli.main import entry; entry()"
    environment = {**os.environ, "PATH": str(folder), "HOME": str(tmp_path), "TZ": "UTC",
                   "BATCHCAST_CONFIG": os.devnull, "BATCHCAST_STORE": str(tmp_path / "none.db")}  # fmt: skip
    return subprocess.run([sys.executable, "-c", code, *words], env=environment, capture_output=True, text=True,
                          check=False, timeout=120)  # fmt: skip


def test_report_from_sacct_loads_nothing_that_it_does_not_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    done = asked(tmp_path, "report", "--each", "-u", "ada")
    assert "relax" in done.stdout
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "batchcast.service.answers.efficiency" in loaded
    assert not loaded & {"numpy", "numba", "http.client", "ssl", "rich", "importlib.metadata"}


def test_report_says_which_of_the_jobs_it_did_not_find(tmp_path: Path) -> None:
    done = asked(tmp_path, "report", "101", "4711", "102_3", "-u", "ada")
    assert done.returncode == 0, done.stderr
    assert "not in accounting, or not started: 4711, 102_3" in done.stderr


def test_report_and_walltime_need_no_more_than_the_core(tmp_path: Path) -> None:
    done = asked(tmp_path, "report", "-u", "ada")
    assert "--time=00:10:00 would have been enough" in done.stdout, done.stderr
    done = asked(tmp_path, "walltime", "--name", "rel*", "-u", "ada")
    assert "#SBATCH --time=00:10:00" in done.stdout, done.stderr
    assert "this answer is from one query to the scheduler" in done.stderr


def test_start_names_the_next_step_with_and_without_a_squeue(tmp_path: Path) -> None:
    done = asked(tmp_path, "start", "1")
    assert done.returncode == 4
    assert "squeue is not installed on this machine" in done.stderr
    assert "run this on a machine with the batch system's clients" in done.stderr
    broken = tmp_path / "bin" / "squeue"
    broken.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('squeue: error: Connection refused')\n")
    broken.chmod(0o755)
    done = asked(tmp_path, "start", "1")
    assert done.returncode == 4
    assert "Connection refused" in done.stderr
    assert "batchcast doctor checks every part" in done.stderr


@pytest.mark.parametrize("words", [["-u", "ada"], ["-u", "ada", "-S", "now-90days"], ["--each", "-p", "main"],
                                   ["--months", "account", "-A", "phys"]])  # fmt: skip
def test_a_report_is_one_question_in_words_that_sacct_knows(tmp_path: Path, words: list[str]) -> None:
    done = asked(tmp_path, "report", *words, "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["results"]
    assert sum(row.get("jobs", 1) for row in rows) == 20
    (question,) = (tmp_path / "asked").read_text().splitlines()
    days = 90 if "now-90days" in words else 30
    since = int(question.partition("--starttime=uts")[2].split(" ")[0])
    assert abs(time.time() - since - 86400 * days) < 7200


@pytest.mark.parametrize(
    ("words", "code", "says", "try_this"),
    [
        (["report", "4711"], 3, "none of these jobs is in accounting", "batchcast report --each"),
        (["walltime", "--name", "other", "-u", "ada"], 3, "no similar finished jobs of ada in the last 30 d", "GLOB"),
        (["report", "--each", "-u", "refused"], 4, "Connection refused", "batchcast doctor checks every part"),
        (["report", "-u", "refused"], 4, "Connection refused", "batchcast doctor checks every part"),
    ],
)
def test_without_an_answer_the_next_step_is_named(
    tmp_path: Path, words: list[str], code: int, says: str, try_this: str
) -> None:
    done = asked(tmp_path, *words)
    assert done.returncode == code
    assert says in done.stderr
    assert try_this in done.stderr.partition("try: ")[2]


def test_doctor_says_what_answers_and_which_part_is_missing(tmp_path: Path) -> None:
    done = asked(tmp_path, "doctor", "--json", squeue=True)
    assert done.returncode == 1, "the PATH holds squeue and sacct, but no cluster answers scontrol"
    said = {one["check"]: one for one in json.loads(done.stdout)["results"]}
    assert said["client squeue"]["state"] == "ok"
    assert said["batch system"]["state"] == "failed"
    assert said["queue"]["found"] == "2 jobs shown"
    assert said["accounting"]["state"] == "ok"
    assert "report, walltime and start work without it" in said["parts"]["found"]
    assert "pip install" in said["parts"]["do"]


@pytest.mark.parametrize(
    ("words", "says", "try_this"),
    [
        (["7"], "gives no start for 7", "ask again in a minute"),
        (["8"], "knows no waiting job 8", "batchcast start --me"),
        (["9"], "knows no waiting job 9", "batchcast start --me"),
    ],
)
def test_start_says_why_there_is_no_start(tmp_path: Path, words: list[str], says: str, try_this: str) -> None:
    done = asked(tmp_path, "start", *words, squeue=True)
    assert done.returncode == 3
    assert says in done.stderr
    assert try_this in done.stderr


def test_start_shows_every_waiting_job_of_which_slurm_estimates_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: the table omitted a waiting job without a start time, as if the job did not wait."""
    both_wait = SQUEUE.replace('"RUNNING"', '"PENDING"').replace('"" if number == "7" else "n1"', '""')
    monkeypatch.setitem(globals(), "SQUEUE", both_wait)
    done = asked(tmp_path, "start", "-u", "ada", squeue=True)
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line for line in done.stdout.splitlines()[1:3]}
    assert set(rows) == {"7", "8"}
    assert re.search(r"^7 +main +- +- ", rows["7"])
    assert "no start for 1 of 2 waiting jobs" in done.stderr


def test_a_group_s_report_without_a_store_names_the_command_that_needs_none(tmp_path: Path) -> None:
    done = asked(tmp_path, "report", "-A", "phys")
    assert done.returncode == 3
    assert "try: batchcast report --months user -A phys" in done.stderr


def test_report_of_a_file_is_of_those_who_were_named(tmp_path: Path) -> None:
    rows = ["JobID|User|Account|Partition|State|Submit|ElapsedRaw|TimelimitRaw|JobName"]
    rows += [f"{k}|{'ada' if k % 2 else 'bob'}|phys|main|COMPLETED|1000|600|60|relax" for k in range(6)]
    path = tmp_path / "jobs.txt"
    path.write_text("\n".join(rows) + "\n")
    shown = json.loads(asked(tmp_path, "report", str(path), "-u", "ada", "-A", "phys", "--json").stdout)
    assert [job["job_id"] for job in shown["results"]] == ["1", "3", "5"]
    assert asked(tmp_path, "report", str(path), "-p", "other").returncode == 3


def test_lines_of_jobs_end_with_what_they_used_in_all(tmp_path: Path) -> None:
    """A user who names a file wants the totals too; for a large file the output names an option that shows less."""
    head = "JobID|User|Account|Partition|State|Submit|ElapsedRaw|TimelimitRaw|AllocCPUS|TotalCPU|JobName"
    rows = [f"{k}|ada|phys|main|COMPLETED|1000|3600|120|4|02:00:00|relax" for k in range(3)]
    path = tmp_path / "jobs.txt"
    path.write_text("\n".join([head, *rows, "9|ada|phys|main|TIMEOUT|1000|7200|120|2|04:00:00|relax"]) + "\n")
    done = asked(tmp_path, "report", str(path))
    assert "total: 4 jobs, 16.0 core-hours; used 57% of time, 62% of processors; 1 killed at the limit" in done.stdout
    in_all = json.loads(asked(tmp_path, "report", str(path), "--json").stdout)["settings"]["total"]
    assert (in_all["jobs"], in_all["processor_hours"]) == (4, 16.0)
    path.write_text("\n".join([head, *(row.replace("0|", f"{k}|", 1) for k in range(50) for row in rows[:1])]) + "\n")
    assert "total: 50 jobs" in (many := asked(tmp_path, "report", str(path)).stdout)
    assert "more: --each (one line per job), --months user" in many


STATES = st.sampled_from(["PENDING", "RUNNING", "COMPLETED", "NODE_FAIL", "REQUEUED", "CANCELLED", "OUT_OF_MEMORY"])


@st.composite
def sightings(draw: st.DrawFn) -> list[Sighting]:
    """Several runs of few jobs, some submitted in the same second, some recorded twice."""
    seen = []
    for _ in range(draw(st.integers(0, 12))):
        job_id, submit, state = str(draw(st.integers(1, 3))), float(draw(st.integers(1, 2))), draw(STATES)
        start = submit + draw(st.integers(0, 3))
        nan = float("nan")
        seen.append(
            Sighting(job_id, job_id, submit, state, start_time=nan if state == "PENDING" else start,
                     end_time=nan if state in ("PENDING", "RUNNING") else start + 5.0,
                     requested={"user_id": "ada", "req_procs": float(draw(st.integers(1, 3)))},
                     certain=draw(st.integers(0, 9)) > 0)
        )  # fmt: skip
    random.Random(len(seen)).shuffle(seen)
    return seen


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("once")


@pytest.mark.long
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
    """Return every job without its number."""
    store = sqlite3.connect(path)
    store.row_factory = sqlite3.Row
    found = store.execute("SELECT * FROM jobs ORDER BY job_id, submit_time, restarts").fetchall()
    store.close()
    return [{name: value for name, value in dict(one).items() if name != "row"} for one in found]


def test_a_method_whose_package_is_missing_is_refused_before_the_log_is_read(tmp_path: Path) -> None:
    code = "import sys; sys.modules['lightgbm'] = None; from batchcast.cli.main import entry; entry()"
    done = subprocess.run([sys.executable, "-c", code, "wait", str(tmp_path / "none.swf"), "--predictor", "forecast"],
                          capture_output=True, text=True, check=False, timeout=120)  # fmt: skip
    assert done.returncode == 1
    assert "lightgbm is not installed" in done.stderr
    assert "install" in done.stderr.split("try:")[1]


def test_a_hint_about_studies_needs_no_checkout_and_a_bare_group_shows_its_help(tmp_path: Path) -> None:
    done = asked(tmp_path, "sweep", str(tmp_path / "none.toml"))
    assert "docs/" not in done.stderr
    words = done.stderr.partition("a minimal study has three lines: ")[2].splitlines()[0].rstrip()
    (tmp_path / "study.toml").write_text(words.replace("], ", "]\n").replace("[[log]] ", "[[log]]\n"))
    assert read_study((tmp_path / "study.toml").read_text(), "study.toml").log[0].path == "LOG"
    done = asked(tmp_path, "sweep")
    assert done.stderr.startswith("Usage: batchcast sweep")
