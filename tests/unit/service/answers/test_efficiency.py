# SPDX-License-Identifier: Apache-2.0
"""Tests one line per job, from files and from sacct, with the values of seff; arrays, months and suggested changes."""

from __future__ import annotations

import gzip
import json
import lzma
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.forked import batchcast

from batchcast.cli.main import cli
from batchcast.errors import InputError
from batchcast.service.answers.efficiency import (
    FIELDS,
    JobUse,
    advice,
    ask_slurm,
    by_month,
    folded,
    of_logs,
    totals,
)
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


Jobs = tuple[list[JobUse], int]
Ask = Callable[..., Jobs]
"""Return the jobs that ran, from rows as sacct has them, and the number of unreadable rows."""


@pytest.fixture
def of_file(tmp_path: Path) -> Ask:
    """Write the rows to a file."""

    def ask(*rows: str) -> Jobs:
        path = tmp_path / "jobs.txt"
        path.write_text(table(*rows))
        jobs, notes = of_logs([str(path)], "UTC")
        return jobs, sum(int(note.split(" ")[0]) for note in notes if "left out" in note or "negative" in note)

    return ask


class Sacct:
    """Answer one question with these rows."""

    def __init__(self, *rows: str) -> None:
        self.rows, self.asked = rows, list[tuple[str, ...]]()

    def ask(self, command: tuple[str, ...]) -> Answer:
        self.asked.append(tuple(command))
        fields = ("".join(f"{field}@" for field in row.split("|", len(FIELDS) - 1)) for row in self.rows)
        return Answer("\n".join(fields) + "\n", "@", 9000.0)


def of_sacct(*rows: str) -> Jobs:
    return ask_slurm(Sacct(*rows), ["--jobs=9"], -math.inf, math.inf)


@pytest.fixture(params=["file", "sacct"])
def ask(request: pytest.FixtureRequest, of_file: Ask) -> Ask:
    """Both inputs give the same result: a job's use does not depend on who printed it."""
    return of_file if request.param == "file" else of_sacct


def test_shares_are_those_of_seff(ask: Ask) -> None:
    steps = step("101.batch", MaxRSS="1048576K"), step("101.0", MaxRSS="2097152K", NNodes=2)
    (job,), broken = ask(row("101"), *steps)
    assert broken == 0
    assert job.processor_share == pytest.approx(0.9)
    assert (job.memory_share, job.time_share) == (0.5, 3600 / 43200)
    assert (job.memory_kib, job.waited_s) == (2 * 2097152, 600)


def test_gpus_are_counted_by_type_too(ask: Ask) -> None:
    """Regression: a site may record GPUs with a type only."""
    typed, both = "cpu=4,mem=8G,node=1,gres/gpu:a100=2", "cpu=4,gres/gpu=2,gres/gpu:a100=2,mem=8G,node=1"
    jobs, _ = ask(row("1", AllocTRES=typed), row("2", AllocTRES=both), row("3"))
    assert [job.gpus for job in jobs] == [2, 2, 0]


def test_gpus_are_shared_by_the_busiest_step(ask: Ask) -> None:
    held = "cpu=4,gres/gpu:a100=2,mem=8G,node=1"
    used = "cpu=01:00:00,gres/gpumem=4G,gres/gpuutil=90,mem=2G"
    (job, other), _ = ask(row("1", AllocTRES=held), step("1.0", TRESUsageInTot=used), row("2", AllocTRES=held))
    assert (job.gpus, job.gpu_share, job.gpu_memory_kib, job.gpu_type) == (2, 0.45, 4 * 1024**2, "a100")
    assert math.isnan(other.gpu_share)


def test_energy_is_that_of_the_step_that_measured_most_and_unknown_where_nothing_measures() -> None:
    """The energy of the batch step includes the energies of the other steps."""
    steps = [row(f"1.{k}", ConsumedEnergyRaw=joules) for k, joules in (("batch", 7_200_000), ("0", 3_600_000))]
    jobs, _ = of_sacct(row("1"), *steps, row("2"), row("2.batch", ConsumedEnergyRaw=0), row("3_1"),
                       row("3_1.batch", ConsumedEnergyRaw=1_800_000), row("3_2"),
                       row("3_2.batch", ConsumedEnergyRaw=1_800_000))  # fmt: skip
    assert [job.energy_kwh for job in jobs[:1]] == [2.0]
    assert math.isnan(jobs[1].energy_kwh)
    assert folded(jobs)[-1].energy_kwh == 1.0, "the tasks of an array together"
    total = totals(jobs)
    assert (total["energy_kwh"], total["energy_jobs"]) == (3.0, 3)


def of_gpus(
    held: str, util: int, memory: str, *, hours: float = 4.0, apart_h: float = 24.0, jobs: int = 8
) -> list[str]:
    """Jobs of several hours on GPUs of a type, far apart in time, with the use that their step measured."""
    rows = []
    for k in range(jobs):
        start, run = 1600 + k * apart_h * 3600, hours * 3600
        times = {"Start": int(start), "End": int(start + run), "ElapsedRaw": int(run)}
        used = f"cpu=01:00:00,gres/gpumem={memory},gres/gpuutil={util},mem=2G"
        rows += [row(str(k), AllocTRES=f"cpu=4,{held},mem=8G,node=1", Submit=int(start) - 600, **times)]
        rows += [step(f"{k}.0", TRESUsageInTot=used, Submit=int(start) - 600, **times)]
    return rows


@pytest.mark.parametrize(
    ("held", "util", "memory", "said"),
    [
        ("gres/gpu:v100=1", 0, "0", "gets 1 GPU and used none of them (32 GPU-hours): --gpus=0, or check that"),
        ("gres/gpu:v100=4", 90, "9G", "gets 4 GPUs and keeps 0.9 busy: --gpus=1 would have been enough for 95 %"),
        (
            "gres/gpu:a100_80gb=2",
            130,
            "60G",
            "used at most 30G of the 80G of each a100_80gb: a GPU with half the memory",
        ),
        ("gres/gpu:a100_80gb=2", 130, "100G", ""),
        ("gres/gpu:v100=2", 180, "9G", ""),
    ],
    ids=["idle", "one of four", "half the memory", "more than half", "in use"],
)
def test_advice_on_gpus_names_what_was_not_used(ask: Ask, held: str, util: int, memory: str, said: str) -> None:
    jobs, _ = ask(*of_gpus(held, util, memory))
    found = [one["advice"] for one in advice(jobs, 600.0, 900.0, 1024.0) if one["flag"] == "--gpus"]
    assert len(found) == bool(said)
    assert not said or found[0].startswith(said)


@pytest.mark.parametrize(
    "less", [{"hours": 0.5}, {"apart_h": 1.0}, {"jobs": 4}], ids=["few hours", "one day", "few jobs"]
)
def test_nothing_is_advised_on_gpus_below_a_day_of_gpu_hours_and_of_time(ask: Ask, less: dict[str, Any]) -> None:
    jobs, _ = ask(*of_gpus("gres/gpu:v100=1", 0, "0", **less))
    assert not [one for one in advice(jobs, 600.0, 900.0, 1024.0) if one["flag"] == "--gpus"]


def test_memory_of_old_slurm_is_a_processor_or_a_node(ask: Ask) -> None:
    rows = row("1", AllocTRES="", ReqMem="2Gc"), row("2", AllocTRES="", ReqMem="2Gn"), row("3", AllocTRES="", ReqMem="")
    jobs, _ = ask(*rows)
    assert [job.memory_asked_kib / 1024**2 for job in jobs[:2]] == [8, 4]
    assert math.isnan(jobs[2].memory_share)


def test_an_array_is_one_row_with_the_worst_state(ask: Ask) -> None:
    tasks = [row(f"7_{k}", ElapsedRaw=60 * k, TotalCPU=f"00:0{k}:00") for k in (1, 2, 3)]
    jobs, _ = ask(*tasks[:2], tasks[2].replace("COMPLETED", "TIMEOUT"), row("8"))
    array, single = folded(jobs)
    assert (array.job_id, array.state, array.tasks, array.elapsed_s) == ("7_[3]", "TIMEOUT 1", 3, 120)
    assert array.processor_share == pytest.approx(360 / (4 * 360))
    assert single == jobs[3]


def test_runs_of_one_number_are_no_array(ask: Ask) -> None:
    """Regression: `sacct -D` prints every run of a requeued job."""
    later: dict[str, object] = {"Submit": 5300, "Start": 5400, "End": 9000}
    jobs, _ = ask(row("5", State="REQUEUED"), row("5", **later), row("6_1", State="REQUEUED"), row("6_1", **later))
    assert sorted(job.job_id for job in folded(jobs)) == ["5", "5", "6_[1]"]


def test_jobs_of_two_clusters_are_no_array() -> None:
    """Regression: `sacct -M` prints jobs of several clusters, whose job numbers overlap."""
    jobs, _ = of_sacct(*(row(job, Cluster=cluster) for job in ("6_1", "6_2") for cluster in "ab"))
    assert [(job.job_id, job.cluster) for job in folded(jobs)] == [("6_[2]", "a"), ("6_[2]", "b")]


def test_jobs_cancelled_in_the_queue_did_not_run_and_give_no_advice(ask: Ask) -> None:
    """Regression: Slurm gives such jobs a start equal to the instant at which they left; AllocCPUS may repeat the
    request."""
    usual: dict[str, object] = {"ElapsedRaw": 0, "Start": 5200, "AllocTRES": "", "TotalCPU": "00:00:00"}
    state, nodes = "CANCELLED by 1001", "None assigned"
    jobs, broken = ask(*(row(str(k), State=state, NodeList=nodes, **usual) for k in range(6)), row("7", NodeList="n1"))
    assert ([job.job_id for job in jobs], broken) == (["7"], 0)
    assert advice(jobs, 300, 300, 100 * 1024) == []


def test_a_start_before_the_submission_is_no_wait(ask: Ask) -> None:
    """Regression: such times occur if two clocks differ, or if a record was changed."""
    jobs, _ = ask(row("1", Submit=1900), row("2"))
    assert {job.job_id: job.waited_s for job in jobs if job.waited_s == job.waited_s} == {"2": 600}


def test_a_negative_run_time_is_counted(ask: Ask) -> None:
    jobs, broken = ask(row("1", ElapsedRaw=-5, End=1595), row("2"))
    assert [job.job_id for job in jobs] == ["2"]
    assert broken, "a person who misses the job finds it counted"


def test_what_never_ran_is_left_out_and_what_is_broken_is_counted() -> None:
    waiting = row("1", State="PENDING", Start="Unknown", End="Unknown", ElapsedRaw=0)
    cancelled = row("2", State="CANCELLED by 1000", Start="Unknown", ElapsedRaw=0)
    running = row("3", State="RUNNING", End="Unknown", NodeList="n1")
    jobs, broken = of_sacct(waiting, cancelled, running, row("4", ElapsedRaw="soon"))
    assert [job.job_id for job in jobs] == ["3"]
    assert broken == 1


def test_a_file_says_what_was_left_out_of_it(tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(table(row("1"), row("3", State="RUNNING", End="Unknown"), "5|x"))
    jobs, notes = of_logs([str(path)], "UTC")
    assert [job.job_id for job in jobs] == ["1"]
    assert any("1 lines left out" in note for note in notes)
    assert any("1 jobs had not finished" in note for note in notes)


def test_a_name_may_hold_the_delimiter_and_times_may_be_local(of_file: Ask) -> None:
    hours = {"Submit": "10:00", "Eligible": "10:00", "Start": "10:10", "End": "11:10"}
    (job,), _ = of_file(row("1", "a|b", **{name: f"2026-10-05T{hour}:00" for name, hour in hours.items()}))
    assert (job.job_name, job.waited_s) == ("a|b", 600)


def test_a_table_of_another_site_is_read_through_its_map(tmp_path: Path) -> None:
    table_of, map_of = tmp_path / "jobs.csv", tmp_path / "map.toml"
    times = "2026-10-05T10:00,2026-10-05T10:10,2026-10-05T11:10"
    table_of.write_text(f"id,who,sent,began,over,cores,cards\n7,ada,{times},8,2\n")
    names = {"job_id": "id", "user_id": "who", "submit_time": "sent", "start_time": "began", "end_time": "over"}
    names |= {"req_procs": "cores", "req_gpus": "cards"}
    columns = "\n".join(f'{ours} = "{theirs}"' for ours, theirs in names.items())
    map_of.write_text(f'timezone = "America/New_York"\n[columns]\n{columns}\n')
    words = ["report", str(table_of), "--map", str(map_of), "--json"]
    done = CliRunner().invoke(cli, [*words, "--each"], env={"TZ": "Asia/Tokyo"})
    (job,) = json.loads(done.stdout)["results"]
    assert (job["user"], job["gpus"], job["elapsed_s"], job["waited_s"]) == ("ada", 2, 3600, 600)
    assert job["end_time"] == 1791213000.0, "11:10 in New York"
    refused = CliRunner().invoke(cli, ["report", "--each", "--map", str(map_of)])
    assert "--map is about the columns of a FILE" in str(refused.exception)


def test_jobs_that_two_files_share_count_once(tmp_path: Path) -> None:
    """Monthly dumps that share a week."""
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    paths[0].write_text(table(row("1"), row("2")))
    paths[1].write_text(table(row("2"), row("3")))
    jobs, notes = of_logs(list(map(str, paths)), "UTC")
    assert [job.job_id for job in jobs] == ["1", "2", "3"]
    assert any("identical to another record" in note for note in notes), notes


def test_one_cluster_of_a_dump_can_be_chosen(tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(table(row("1", Cluster="alpha"), row("1", Cluster="beta")))
    assert [job.cluster for job in of_logs([str(path)], "UTC")[0]] == ["alpha", "beta"]
    assert [job.cluster for job in of_logs([str(path)], "UTC", "beta")[0]] == ["beta"]


PLAIN = "JobIDRaw|Submit|Start|End|State|Timelimit|ReqCPUS|JobName\n" + "".join(
    f"{k}|2026-03-01T10:00:00|2026-03-01T10:10:00|2026-03-01T11:10:00|COMPLETED|02:00:00|4|relax\n" for k in (7, 8)
)
"""Without ElapsedRaw, and with JobIDRaw instead of JobID, start and end suffice."""
FORMS = {
    "as printed": PLAIN.encode(),
    "gzip": gzip.compress(PLAIN.encode()),
    "xz": lzma.compress(PLAIN.encode()),
    "commas": PLAIN.replace("|", ",").encode(),
    "carriage returns": PLAIN.replace("\n", "\r\n").encode(),
    "a warning first": b"sacct: slurmdbd is slow\n" + PLAIN.encode(),
    "SWF": b"; UnixStartTime: 1772359200\n7 0 600 3600 4 -1 -1 4 7200 -1 1 1 1 1 1 1 -1 -1\n"
    b"8 0 600 3600 4 -1 -1 4 7200 -1 1 1 1 1 1 1 -1 -1\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_a_file_is_read_as_every_other_verb_reads_it(form: str, tmp_path: Path) -> None:
    path = tmp_path / "jobs"
    path.write_bytes(FORMS[form])
    jobs, _ = of_logs([str(path)], "UTC")
    assert [(job.job_id, job.elapsed_s, job.limit_s, job.waited_s) for job in jobs] == [
        ("7", 3600.0, 7200.0, 600.0), ("8", 3600.0, 7200.0, 600.0)
    ]  # fmt: skip


def test_months_are_side_by_side() -> None:
    rows = [row(str(k), User=user, End=end) for k, (user, end) in enumerate([("a", 1), ("b", 1), ("a", 2), ("a", 2)])]
    jobs, _ = of_sacct(*rows)
    shown = by_month(jobs, "user", lambda instant: f"2026-{instant:02.0f}")
    assert [(r["month"], r["user"], r["jobs"]) for r in shown] == [
        ("2026-01", "a", 1), ("2026-01", "b", 1), ("2026-02", "a", 2),
    ]  # fmt: skip
    assert shown[2]["processor_share"] == pytest.approx(0.9)
    assert shown[2]["processor_hours"] == 8


def test_advice_names_limit_and_memory(ask: Ask) -> None:
    rows = [line for k in range(20) for line in (row(f"{k}"), step(f"{k}.0", MaxRSS="524288K"))]
    jobs, _ = ask(*rows)
    told = {one["flag"]: one["advice"] for one in advice(jobs, 300, 300, 100 * 1024)}
    assert "--time=1:00:00" in str(told["--time"]) or "--time=01:00:00" in str(told["--time"])
    assert "--mem=600M would have been enough" in told["--mem"]
    assert advice(jobs[:4], 300, 300, 100 * 1024) == []


def test_nothing_is_promised_for_95_percent_that_the_jobs_do_not_show() -> None:
    """Of 118 jobs 23 were cut off at 2 h, so their need is unknown, and five jobs do not determine a 95 % limit."""
    hours = {"TimelimitRaw": 6000, "ElapsedRaw": 600}
    cut = [row(f"{k}", "mesh", State="TIMEOUT", TimelimitRaw=120, ElapsedRaw=7200) for k in range(23)]
    long = [row(f"{100 + k}", "mesh", **hours) for k in range(95)]
    few = [row(f"{300 + k}", "few", **hours) for k in range(5)]
    jobs, _ = of_sacct(*cut, *long, *few)
    told = {one["job_name"]: str(one["advice"]) for one in advice(jobs, 300, 300, 100 * 1024)}
    assert told["mesh"].startswith("23 of 118 jobs were ended at their time limit")
    assert "95 %" not in told["mesh"]
    assert "the longest of these 5 ran 10 min: --time=00:15:00 would have been enough for each" in told["few"]


def test_advice_for_memory_is_among_the_first() -> None:
    """Ten kinds of job waste hours of processors and one kind wastes memory: the reader sees both."""
    names = [f"kind{k}" for k in range(10)]
    rows = [row(f"{10 * k + n}", name, TimelimitRaw=6000) for n, name in enumerate(names) for k in range(20)]
    large = [line for k in range(20) for line in (row(f"{900 + k}", "big", TimelimitRaw=60),
                                                   step(f"{900 + k}.0", MaxRSS="524288K"))]  # fmt: skip
    jobs, _ = of_sacct(*rows, *large)
    assert [one["flag"] for one in advice(jobs, 300, 300, 100 * 1024)][:3] == ["--time", "--mem", "--time"]


def test_one_question_is_asked_and_nothing_is_shortened() -> None:
    sacct = Sacct(row("9", "two\nlines|"))
    jobs, broken = ask_slurm(sacct, ["--jobs=9"], -math.inf, math.inf)
    assert (jobs[0].job_name, broken) == ("two\nlines|", 0)
    assert len(sacct.asked) == 1
    assert not any(word.startswith("--starttime") for word in sacct.asked[0])


def test_a_file_that_is_no_log_is_told_what_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("remember the milk\n")
    with pytest.raises(InputError, match="accepted: SWF, `sacct -P`"):
        of_logs([str(path)], "UTC")


def test_the_command_prints_jobs_months_and_a_page(tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(table(row("101"), step("101.0", MaxRSS="2097152K"), row("102_1"), row("102_2")))
    shown = batchcast("report", path, "--each")
    assert shown.returncode == 0, shown.stderr
    assert "102_[2]" in shown.stdout
    assert "\x1b" not in shown.stdout
    assert "102_2" in batchcast("report", path, "--tasks").stdout
    assert "1970-01  phys" in batchcast("report", path, "--months", "account").stdout
    assert batchcast("report", path, "--digest").stdout.startswith("Jobs of alice, 1970-01")
    assert "none: neither a file nor a job number" in batchcast("report", tmp_path / "none").stderr
    other = tmp_path / "more.txt"
    other.write_text(table(row("103")))
    both = batchcast("report", path, other, "--each").stdout
    assert "101" in both
    assert "103" in both
    assert "no selected job in" in batchcast("report", path, "-S", "2026-01-01").stderr, "all of these ended in 1970"
    assert "is a job" in batchcast("report", path, "101").stderr
    assert "Traceback" not in batchcast("report", "12").stderr


def test_a_name_cannot_write_on_the_terminal(tmp_path: Path) -> None:
    """A job name may contain control codes that clear the screen, set its title or reverse the text."""
    path = tmp_path / "jobs.txt"
    evil = "\x1b[2Jx\x07\x9b31m\u202e"
    path.write_text(table(*(row(str(k), evil, TimelimitRaw=6000) for k in range(20))), encoding="utf-8")
    for words in (["report", path], ["report", path, "-P"], ["report", path, "--json"], ["info", path]):
        done = batchcast(*words)
        assert done.returncode == 0, done.stderr
        assert not set("\x1b\x07\x9b\u202e") & set(done.stdout + done.stderr)
    assert "?[2Jx??31m?" in batchcast("report", path, "--each").stdout


def test_a_file_is_answered_by_user_unless_each_job_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    users = [f"u{k % 20}" for k in range(100)]
    path.write_text(table(*(row(str(1000 + k), ElapsedRaw=60 + 60 * k, User=user) for k, user in enumerate(users))))
    shown = batchcast("report", path).stdout
    assert "\n1099 " not in shown
    assert len(shown.splitlines()) <= 24
    assert "\nu19 " in shown, "who used the most comes first"
    assert "and 12 more users" in shown
    assert "total: 100 jobs" in shown
    assert "--each" in shown
    assert "\n1001 " in batchcast("report", path, "--each").stdout


def test_a_saved_table_with_timelimit_and_no_timelimitraw_has_limits(tmp_path: Path) -> None:
    header = "JobID|State|Start|Submit|Eligible|End|ElapsedRaw|Timelimit"
    times = "2026-01-01T00:00:00|2026-01-01T00:00:00||2026-01-01T01:00:00"
    rows = [f"{n}|COMPLETED|{times}|3600|{limit}" for n, limit in enumerate(LIMITS)]
    path = tmp_path / "jobs.txt"
    path.write_text("\n".join([header, *rows]) + "\n")
    jobs, _ = of_logs([str(path)], "UTC")
    assert [job.limit_s for job in jobs[:2]] == [7200.0, 90000.0]
    assert all(math.isnan(job.time_share) for job in jobs[2:])


LIMITS = ("02:00:00", "1-01:00:00", "UNLIMITED", "Partition_Limit")
