# SPDX-License-Identifier: Apache-2.0
"""A line a job from sacct's rows, as seff would have it; arrays, months and what to change."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from tests.forked import batchcast

from batchcast.errors import InputError
from batchcast.service.answers.efficiency import FIELDS, advice, ask_slurm, by_month, folded, read_table
from batchcast.slurm.transport import Answer

HEADER = "|".join(FIELDS)


def row(job: str, name: str = "relax", **said: object) -> str:
    usual = {
        "JobID": job, "User": "alice", "Account": "phys", "Partition": "main", "State": "COMPLETED", "Submit": 1000,
        "Start": 1600, "End": 5200, "ElapsedRaw": 3600, "TimelimitRaw": 720, "ReqCPUS": 4, "AllocCPUS": 4,
        "TotalCPU": "03:36:00", "ReqMem": "8G", "AllocTRES": "billing=4,cpu=4,mem=8G,node=2", "NNodes": 2,
        "JobName": name,
    }  # fmt: skip
    return "|".join(str((usual | said).get(field, "")) for field in FIELDS)


def step(job: str, **said: object) -> str:
    return row(job, "batch", User="", TimelimitRaw="", ReqMem="", NTasks=1, **said)


def table(*rows: str) -> str:
    return "\n".join((HEADER, *rows)) + "\n"


def test_shares_are_those_of_seff() -> None:
    steps = step("101.batch", MaxRSS="1048576K"), step("101.0", MaxRSS="2097152K", NNodes=2)
    (job,), broken = read_table(table(row("101"), *steps), "jobs.txt")
    assert broken == 0
    assert (job.processor_share, job.memory_share, job.time_share) == (0.9, 0.5, 3600 / 43200)
    assert (job.memory_kib, job.waited_s) == (2 * 2097152, 600)


def test_gpus_are_shared_by_the_busiest_step() -> None:
    held = "cpu=4,gres/gpu=2,gres/gpu:a100=2,mem=8G,node=1"
    used = "cpu=01:00:00,gres/gpumem=4G,gres/gpuutil=90,mem=2G"
    (job, other), _ = read_table(
        table(row("1", AllocTRES=held), step("1.0", TRESUsageInTot=used), row("2", AllocTRES=held)), "jobs.txt"
    )
    assert (job.gpus, job.gpu_share) == (2, 0.45)
    assert math.isnan(other.gpu_share)


def test_memory_of_old_slurm_is_a_processor_or_a_node() -> None:
    rows = row("1", AllocTRES="", ReqMem="2Gc"), row("2", AllocTRES="", ReqMem="2Gn"), row("3", AllocTRES="", ReqMem="")
    jobs, _ = read_table(table(*rows), "jobs.txt")
    assert [job.memory_asked_kib / 1024**2 for job in jobs[:2]] == [8, 4]
    assert math.isnan(jobs[2].memory_share)


def test_an_array_is_one_row_with_the_worst_state() -> None:
    tasks = [row(f"7_{k}", ElapsedRaw=60 * k, TotalCPU=f"00:0{k}:00") for k in (1, 2, 3)]
    jobs, _ = read_table(table(*tasks[:2], tasks[2].replace("COMPLETED", "TIMEOUT"), row("8")), "jobs.txt")
    array, single = folded(jobs)
    assert (array.job_id, array.state, array.tasks, array.elapsed_s) == ("7_[3]", "TIMEOUT 1", 3, 120)
    assert array.processor_share == pytest.approx(360 / (4 * 360))
    assert single == jobs[3]


def test_what_never_ran_is_left_out_and_what_is_broken_is_counted() -> None:
    waiting = row("1", State="PENDING", Start="Unknown", End="Unknown", ElapsedRaw=0)
    cancelled = row("2", State="CANCELLED by 1000", Start="Unknown", ElapsedRaw=0)
    running = row("3", State="RUNNING", End="Unknown")
    odd = row("4", ElapsedRaw="soon"), "5|x"
    jobs, broken = read_table(table(waiting, cancelled, running, *odd), "jobs.txt")
    assert [job.job_id for job in jobs] == ["3"]
    assert broken == 2


def test_a_name_may_hold_the_delimiter_and_times_may_be_local() -> None:
    (job,), _ = read_table(
        table(row("1", "a|b", Submit="2026-10-05T10:00:00", Start="2026-10-05T10:10:00", End="2026-10-05T11:10:00")),
        "f",
    )
    assert (job.job_name, job.waited_s) == ("a|b", 600)


def test_months_are_side_by_side() -> None:
    rows = [row(str(k), User=user, End=end) for k, (user, end) in enumerate([("a", 1), ("b", 1), ("a", 2), ("a", 2)])]
    jobs, _ = read_table(table(*rows), "jobs.txt")
    shown = by_month(jobs, "user", lambda instant: f"2026-{instant:02.0f}")
    assert [(r["month"], r["user"], r["jobs"]) for r in shown] == [
        ("2026-01", "a", 1), ("2026-01", "b", 1), ("2026-02", "a", 2),
    ]  # fmt: skip
    assert shown[2]["processor_share"] == pytest.approx(0.9)
    assert shown[2]["processor_hours"] == 8


def test_advice_names_limit_and_memory() -> None:
    rows = [line for k in range(20) for line in (row(f"{k}"), step(f"{k}.0", MaxRSS="524288K"))]
    jobs, _ = read_table(table(*rows), "jobs.txt")
    told = {one["flag"]: one["advice"] for one in advice(jobs, 300, 300, 100 * 1024)}
    assert "--time=1:00:00" in str(told["--time"]) or "--time=01:00:00" in str(told["--time"])
    assert "--mem=600M would have been enough" in told["--mem"]
    assert advice(jobs[:4], 300, 300, 100 * 1024) == []


def test_one_question_is_asked_and_nothing_is_shortened() -> None:
    asked: list[tuple[str, ...]] = []

    class Sacct:
        def ask(self, command: tuple[str, ...]) -> Answer:
            asked.append(tuple(command))
            fields = row("9", "two\nlines|").split("|", len(FIELDS) - 1)
            return Answer("".join(f"{field}@" for field in fields) + "\n", "@", 9000.0)

    jobs, broken = ask_slurm(Sacct(), ["--jobs=9"], -math.inf, math.inf)  # type: ignore[arg-type]
    assert (jobs[0].job_name, broken) == ("two\nlines|", 0)
    assert len(asked) == 1
    assert not any(word.startswith("--starttime") for word in asked[0])


def test_a_file_of_other_columns_is_told_the_command() -> None:
    with pytest.raises(InputError) as error:
        read_table("JobName|State\n", "jobs.txt")
    assert "line 1 names no column JobID, ElapsedRaw" in str(error.value)
    assert "sacct -P -o JobID," in str(error.value)


def test_the_command_prints_jobs_months_and_a_page(tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(table(row("101"), step("101.0", MaxRSS="2097152K"), row("102_1"), row("102_2")))
    shown = batchcast("report", path)
    assert shown.returncode == 0, shown.stderr
    assert "102_[2]" in shown.stdout
    assert "\x1b" not in shown.stdout
    assert "102_2" in batchcast("report", path, "--tasks").stdout
    assert "1970-01  phys" in batchcast("report", path, "--months", "account").stdout
    assert batchcast("report", path, "--digest").stdout.startswith("Jobs of alice, 1970-01")
    assert "4711, 4712_3, a file" in batchcast("report", tmp_path / "none").stderr
    assert "Traceback" not in batchcast("report", "12").stderr


def test_a_saved_table_with_timelimit_and_no_timelimitraw_has_limits() -> None:
    header = "JobID|State|Start|Submit|Eligible|End|ElapsedRaw|Timelimit"
    rows = [f"{n}|COMPLETED|2026-01-01T00:00:00|||2026-01-01T01:00:00|3600|{limit}" for n, limit in enumerate(LIMITS)]
    jobs, broken = read_table("\n".join([header, *rows]), "jobs.txt")
    assert broken == 0
    assert [job.limit_s for job in jobs[:2]] == [7200.0, 90000.0]
    assert all(math.isnan(job.time_share) for job in jobs[2:])


LIMITS = ("02:00:00", "1-01:00:00", "UNLIMITED", "Partition_Limit")
