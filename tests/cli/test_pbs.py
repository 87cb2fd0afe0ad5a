"""Tests a PBS server whose qstat prints invalid JSON: the verbs continue with qstat's text form."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from tests.forked import batchcast

from batchcast.pbs import Pbs
from batchcast.slurm.transport import Answer

SUBMITTED = "Thu Nov 26 12:00:00 2026"
INVALID = {
    "leading zero": ("Variable_List", '{ "N":005 }'),
    "leading point": ("Variable_List", '{ "N":.123 }'),
    "escaped comma": ("Variable_List", r'{ "N":"a\,b" }'),
    "escaped quote": ("Variable_List", r'{ "N":"it\'s" }'),
    "inner quotes": ("Variable_List", '{ "N":"HEALTH "x" y" }'),
    "comment": ("comment", '"Not Running: "q1" is full"'),
    "arguments": ("Submit_arguments", r'"-N a\-b job.sh"'),
    "name": ("Job_Name", r'"a\_b"'),
    "account": ("Account_Name", '"the "x" project"'),
}


def one_json(number: int, name: str = "Priority", token: str = "0") -> str:
    return (
        f'"{number}.pbs01":{{ "Job_Owner":"u1@login1", "job_state":"Q", "queue":"workq", "server":"pbs01", '
        f'"ctime":"{SUBMITTED}", "qtime":"{SUBMITTED}", "etime":"{SUBMITTED}", "mtime":"{SUBMITTED}", '
        f'"Resource_List":{{ "ncpus":4, "walltime":"01:00:00" }}, "{name}":{token} }}'
    )


def one_text(number: int) -> str:
    return (
        f"Job Id: {number}.pbs01\n    Job_Name = relax\n    Job_Owner = u1@login1\n    job_state = Q\n"
        f"    queue = workq\n    server = pbs01\n    ctime = {SUBMITTED}\n    etime = {SUBMITTED}\n"
        f"    mtime = {SUBMITTED}\n    qtime = {SUBMITTED}\n    Resource_List.ncpus = 4\n"
        "    Resource_List.walltime = 01:00:00\n    Variable_List = PBS_O_HOME=/home/u1,N=005,\n"
        "\tWORDS = a = b\n\n"
    )


def serve(folder: Path, json_text: str, text: str) -> dict[str, str]:
    """An environment whose qstat prints these texts, and rejects combinations of options that OpenPBS rejects."""
    (folder / "jobs.json").write_text(json_text)
    (folder / "jobs.txt").write_text(text)
    (folder / "server.txt").write_text("Server: pbs01\n    job_history_enable = True\n    default_queue = workq\n")
    (folder / "queue.txt").write_text("Queue: workq\n    resources_default.walltime = 01:00:00\n")
    program = folder / "qstat"
    program.write_text(
        f'#!/bin/sh\necho "$*" >> {folder}/asked\ncase "$*" in\n'
        f'"-B -f") cat {folder}/server.txt;;\n"-Q -f") cat {folder}/queue.txt;;\n'
        f'"-x -t -f -F json"*) cat {folder}/jobs.json;;\n"-x -t -f"*) cat {folder}/jobs.txt;;\n'
        '*) echo "qstat: illegal option" >&2; exit 2;;\nesac\n'
    )
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def document(*jobs: str) -> str:
    return '{ "timestamp":1795700000, "pbs_server":"pbs01", "Jobs":{ ' + ",\n".join(jobs) + " } }"


def four_jobs(kind: str) -> tuple[str, str]:
    """Four jobs as qstat prints them, in JSON, where the third contains an invalid token, and as text."""
    numbers = (101, 102, 103, 104)
    invalid = {103: INVALID[kind]}
    return document(*(one_json(n, *invalid.get(n, ())) for n in numbers)), "".join(map(one_text, numbers))


@pytest.mark.long
def test_one_jobs_words_do_not_stop_the_collector(tmp_path: Path) -> None:
    env = serve(tmp_path, *four_jobs("leading zero"))
    store = tmp_path / "pbs.db"
    done = batchcast("collect", "--once", "--batch-system", "pbs", "--store", str(store), env=env)
    assert done.returncode == 0, done.stderr
    assert "4 jobs in the queue" in (done.stdout + done.stderr)
    assert "cannot be read" not in (done.stdout + done.stderr)
    with closing(sqlite3.connect(store)) as there:
        assert there.execute("SELECT count(*) FROM jobs WHERE req_procs = 4").fetchone() == (4,)


@pytest.mark.parametrize("kind", INVALID)
def test_whatever_makes_json_invalid_every_job_is_read_from_text(kind: str) -> None:
    as_json, as_text = four_jobs(kind)

    class Qstat:
        def ask(self, command: Sequence[str]) -> Answer:
            return Answer(as_json if "json" in command else as_text, "", 0.0)

    with pytest.raises(ValueError, match=r"\S"):
        json.loads(as_json)
    seen = Pbs(Qstat()).snapshot()
    assert [one.requested["req_procs"] for one in seen.jobs] == [4.0] * 4


@pytest.mark.long
def test_a_job_that_the_text_cannot_tell_is_counted(tmp_path: Path) -> None:
    unreadable = one_text(103).replace(f"time = {SUBMITTED}", "time = ?")
    imitated = one_text(104) + one_text(104).replace("job_state = Q", "job_state = F")
    env = serve(tmp_path, document(one_json(103, *INVALID["leading zero"])), one_text(101) + unreadable + imitated)
    done = batchcast("collect", "--once", "--batch-system", "pbs", "--store", str(tmp_path / "pbs.db"), env=env)
    assert "1 job in the queue, 3 that could not be read" in done.stderr, done.stderr


def test_text_is_asked_for_from_then_on(tmp_path: Path) -> None:
    """An invalid document stays invalid while the job is in the server's history, so each cycle must query qstat once,
    not twice."""
    broken = document(one_json(103, *INVALID["leading zero"]))
    asked: list[str] = []

    class Qstat:
        def ask(self, command: Sequence[str]) -> Answer:
            asked.append(" ".join(command))
            return Answer(broken if "json" in command else one_text(103), "", 0.0)

    pbs = Pbs(Qstat())
    assert [len(pbs.snapshot().jobs), len(pbs.job("103").jobs)] == [1, 1]
    assert asked == ["qstat -x -t -f -F json", "qstat -x -t -f", "qstat -x -t -f 103"]


@pytest.mark.parametrize(
    "text", ["{", '{"Jobs": [1]}', '{"Jobs": {"7.pbs": 5}}', "{" + '"a":{' * 5000, '{"Jobs": null}']
)
def test_json_of_another_shape_is_no_fault(text: str) -> None:
    class Qstat:
        def ask(self, command: Sequence[str]) -> Answer:
            return Answer(text if "json" in command else one_text(103), "", 0.0)

    look = Pbs(Qstat()).snapshot()
    assert len(look.jobs) + look.broken == 1
