"""Tests `start` (its sentence, every way to submit a script, `--watch`) and `accuracy` (its verdict)."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from batchcast.cli.main import cli
from batchcast.cli.users.start import coverage_of_similar, print_waiting, sentence
from batchcast.formats.slurm.sbatch import parse_script
from batchcast.predict.protocol import Prediction
from batchcast.service.answers.script import _ordered, chance_done, run_times
from batchcast.store.clock_jobs import write_meta
from batchcast.store.database import Store

from .test_live import ME, _store, measured

__all__ = ["measured"]

SCRIPT = "#!/bin/sh\n#SBATCH -p main -N 2 -n 8 -t 2:00:00\n#SBATCH -J relax\nsrun x\n"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return _store(str(tmp_path_factory.mktemp("where") / "s.db"), False, time.time())


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> str:
    return _store(str(tmp_path_factory.mktemp("where") / "s.db"), True, time.time())


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "job.sh"
    path.write_text(SCRIPT)
    return str(path)


def run(*words: str, store: str, code: int = 0) -> Result:
    """Run the verb in this process, so that kernels are compiled only once."""
    done = CliRunner().invoke(cli, words, env={"BATCHCAST_STORE": store, "BATCHCAST_CONFIG": os.devnull})
    error = getattr(done.exception, "exit_code", done.exit_code)
    assert error == code, done.output + str(done.exception)
    return done


def where(store: str, *words: str) -> list[dict]:
    return json.loads(run("start", "--test", *words, "--where", "--json", store=store).stdout)["results"]


def test_a_script_that_fits_nowhere_is_told_why_it_never_starts(store: str, tmp_path: Path) -> None:
    """An empty table would say nothing, and a portal must also show a job that is about to start."""
    path = tmp_path / "huge.sh"
    path.write_text("#!/bin/sh\n#SBATCH -n 999999999 -t 60\n")
    refused = run("start", "--test", str(path), "--where", store=store, code=3)
    assert "it would never start: larger than main" in str(refused.exception)


def test_a_job_of_several_parts_is_refused_by_name(store: str, tmp_path: Path) -> None:
    path = tmp_path / "hetjob.sh"
    path.write_text("#!/bin/sh\n#SBATCH -n 8 -t 15\n#SBATCH hetjob\n#SBATCH -n 2 -c 4\nsrun x\n")
    assert "job of several parts" in str(run("start", "--test", str(path), store=store, code=2).exception)


def test_each_partition_of_a_list_must_exist(store: str, tmp_path: Path) -> None:
    path = tmp_path / "two.sh"
    path.write_text("#!/bin/sh\n#SBATCH -p main,nowhere -n 4 -t 10\nsrun x\n")
    assert "no partition 'nowhere'" in str(run("start", "--test", str(path), store=store, code=2).exception)
    assert "4 processors" in run("start", "--test", str(path), "-p", "main,main", store=store).stderr


def test_every_way_to_submit_is_shown_the_safest_start_first_at_the_size_asked_for(store: str, script: str) -> None:
    results = where(store, script)
    assert {r["what"] for r in results} == {
        "as requested",
        "with the suggested limit",
        "half the size",
        "twice the size",
    }
    same = [r for r in results if r["same_size"]]
    assert results[: len(same)] == same, "no other size stands above the size asked for"
    ends = [r["by_90_start_s"] + r["likely_run_s"] for r in same]
    assert ends == sorted(ends)
    asked = next(r for r in results if r["what"] == "as requested")
    half = next(r for r in results if r["what"] == "half the size")
    assert (half["procs"], half["limit_s"]) == (asked["procs"] / 2, 2 * asked["limit_s"])
    assert half["flags"] == "--partition=main --nodes=1 --ntasks=4 --time=04:00:00"
    assert half["core_hours"] == pytest.approx(asked["core_hours"]), "half the size, twice as long"
    for r in results:
        assert r["by_10_start_s"] <= r["likely_start_s"] <= r["by_90_start_s"]
        assert r["chance_done_by"] is None
    text = run("start", "--test", script, "--where", store=store)
    *_, rule, best = text.stdout.splitlines()
    assert best == f"best: sbatch {results[0]['flags']} {script}"
    assert "earliest BY 90%" in rule
    assert "on half the nodes or GPUs a job runs twice as long" in text.stderr, "what was assumed is said"


WAYS = {  # has the requested size, likely start, 90 % start, likely run time, core-hours, chance
    "as requested": (True, 10.0, 20.0, 3000.0, 4.0, 0.5),
    "twice the size": (False, 5.0, 18000.0, 1500.0, 4.0, 0.9),
    "another queue": (True, 0.0, 9000.0, 3000.0, 4.0, 0.7),
    "unknown": (True, float("nan"), float("nan"), 3000.0, 4.0, float("nan")),
}


@pytest.mark.parametrize(
    ("by", "any_size", "order"),
    [
        (False, False, ["as requested", "another queue", "unknown", "twice the size"]),
        (False, True, ["as requested", "another queue", "twice the size", "unknown"]),
        (True, False, ["another queue", "as requested", "unknown", "twice the size"]),
        (True, True, ["twice the size", "another queue", "as requested", "unknown"]),
    ],
)
def test_another_size_is_the_best_only_on_request_and_the_90_percent_time_decides(
    by: bool, any_size: bool, order: list[str]
) -> None:
    ways = [
        {
            "what": what, "same_size": same, "likely_start_s": likely, "by_90_start_s": late, "likely_run_s": run_s,
            "core_hours": hours, "chance_done_by": chance if by else float("nan"),
        }
        for what, (same, likely, late, run_s, hours, chance) in WAYS.items()
    ]  # fmt: skip
    assert [way["what"] for way in _ordered(ways, any_size)] == order


def test_memory_is_asked_for_printed_and_kept_whole_at_another_size(measured: str, tmp_path: Path) -> None:
    path = tmp_path / "job.sh"
    path.write_text("#!/bin/sh\n#SBATCH -p main -N 2 -n 8 -t 2:00:00 --mem=10G\n#SBATCH -J relax\nsrun x\n")
    flags = {r["what"]: r["flags"] for r in where(measured, str(path))}
    assert re.search(r"--mem=\d+M$", flags["with the suggested limit and memory"]), "less than the 10 GiB asked for"
    assert "--mem=10G" in flags["as requested"]
    assert "half the size" not in flags, "20 GiB a node: none there has so much"
    assert "--nodes=4 --ntasks=16 --time=2:00:00 --mem=5G" in flags["twice the size"]
    text = run("start", "--test", str(path), "--where", store=measured).stdout
    assert "MEMORY" in text.splitlines()[0]
    assert "10G" in text


def test_a_deadline_decides_by_the_chance_to_be_done(store: str, script: str) -> None:
    """Waits are about one minute and run times about seven, so all jobs end within half an hour and none within a
    minute."""
    for span, low, high in (("now+30minutes", 0.9, 1.0), ("now+1minute", 0.0, 0.1)):
        chances = [r["chance_done_by"] for r in where(store, script, "--done-by", span)]
        assert low <= max(chances) <= high
        assert chances[0] >= max(chances) - 0.02
    assert "IN TIME" in run("start", "--test", script, "--where", "--done-by", "now+30minutes", store=store).stdout


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The store of the other tests with a second partition, whose jobs requested a100 or v100 in turn."""
    path = _store(str(tmp_path_factory.mktemp("cards") / "s.db"), False, time.time())
    part = {"default_time_s": 3600.0, "max_time_s": 86400.0, "procs": 64.0}
    site = {"private": False, "partitions": {"main": {**part, "is_default": 1.0}, "long": part}, "version": "22.05"}
    with Store(path).begin() as connection:
        write_meta(connection, "c", site=site)
    with sqlite3.connect(path) as database:
        types = "CASE WHEN row % 4 THEN 'a100' ELSE 'v100' END"
        database.execute(f"UPDATE jobs SET partition_id = 'long', req_gpus = 2, gpu_type = {types} WHERE row % 2 = 0")
        assert database.total_changes > 3
    return path


def of_gpus(tmp_path: Path, options: str) -> str:
    path = tmp_path / "gpu.sh"
    path.write_text(f"#!/bin/sh\n#SBATCH -J relax -t 2:00:00 -n 1 -c 4 {options}\nsrun x\n")
    return str(path)


@pytest.mark.parametrize(
    ("options", "switches"),
    [
        ("--gres=gpu:a100:2", {"--gres=gpu:v100:2", "--gres=gpu:a100:1", "--gres=gpu:a100:4"}),
        ("--gpus=a100:1", {"--gpus=v100:1", "--gpus=a100:2"}),
        ("--gpus-per-node=2", {"--gpus-per-node=1", "--gpus-per-node=4"}),
    ],
)
def test_where_ranges_over_types_and_numbers_of_gpus_and_says_what_a_switch_costs(
    cards: str, tmp_path: Path, options: str, switches: set[str]
) -> None:
    script = of_gpus(tmp_path, options)
    ways = where(cards, script)
    assert {way["partition"] for way in ways} == {"long"}, "no job of main ever had GPUs"
    assert {re.search(r"--gres\S*|--gpus\S*", way["flags"])[0] for way in ways} == {options, *switches}
    asked = next(way for way in ways if way["what"] == "as requested")
    for way in ways:
        assert way["gpu_hours"] == pytest.approx(way["gpus"] * way["likely_run_s"] / 3600)
        assert way["core_hours"] == pytest.approx(way["procs"] * way["likely_run_s"] / 3600)
    assert asked["gpus"] == parse_script(Path(script).read_text()).gpus
    assert {way["procs"] for way in ways if way["what"] == "half the GPUs"} <= {asked["procs"]}
    text = run("start", "--test", script, "--where", store=cards).stdout
    assert "GPU H" in text.splitlines()[0]
    assert len(re.findall(r"^(?:with v100|half the GPUs|twice the size): 90 % start ", text, re.M)) == len(switches)


def test_gpus_that_no_job_had_are_not_taken_for_known(cards: str, store: str, tmp_path: Path) -> None:
    script = of_gpus(tmp_path, "--gres=gpu:a100:2")
    on_main = run("start", "--test", script, "-p", "main", store=cards).stderr
    assert "no job on main requested GPUs of the type a100 in 90 days" in on_main
    assert "jobs on long did" in on_main
    assert "requested GPUs" not in run("start", "--test", script, "-p", "long", store=cards).stderr
    for words in ((), ("--where",)):
        assert (
            "no job on main requested GPUs" in run("start", "--test", script, "-p", "main", *words, store=store).stderr
        )


SCRIPTS = {  # lines of a script that request processors and GPUs
    "#SBATCH --gpus=4\n#SBATCH --cpus-per-gpu=8": (32.0, 4.0),
    "#SBATCH --gpus=4 --ntasks-per-gpu=2 -c 3": (24.0, 4.0),
    "#SBATCH --ntasks=8 --ntasks-per-gpu=4": (8.0, 2.0),
    "#SBATCH -n 2 --tres-per-task=cpu=8,gres/gpu:a100:2": (16.0, 4.0),
    "#SBATCH -J run#1 -t 1:00:00 -n 16": (16.0, 0.0),
    "#SBATCH -n 16 # -n 99": (16.0, 0.0),
    "  #SBATCH -n 99\n#SBATCH -n 16": (16.0, 0.0),
}


@pytest.mark.parametrize("lines", SCRIPTS)
def test_a_script_asks_for_what_sbatch_takes_it_to_ask_for(store: str, lines: str, tmp_path: Path) -> None:
    """Regression: job sizes that follow from GPUs, `#` inside a word, and indented lines."""
    path = tmp_path / "job.sh"
    path.write_text(f"#!/bin/bash\n{lines}\nsrun x\n")
    procs, gpus_asked = SCRIPTS[lines]
    assert f": {procs:g} processors, limit" in run("start", "--test", str(path), store=store).stderr
    assert parse_script(path.read_text()).gpus == gpus_asked


def test_options_that_no_forecast_goes_by_are_named(store: str, tmp_path: Path) -> None:
    path = tmp_path / "job.sh"
    path.write_text("#!/bin/bash\n#SBATCH -n 4 -w n1 -C intel --exclusive -o out.txt\nsrun x\n")
    said = run("start", "--test", str(path), store=store).stderr
    assert "ignored: --nodelist (" in said
    assert "--constraint and --exclusive are not simulated" in said, "no machine is known to this store"


def test_a_time_of_day_that_is_over_is_tomorrows_and_a_date_that_is_over_is_refused(store: str, script: str) -> None:
    assert run("start", "--test", script, "--where", "--done-by", "00:00", store=store)
    refused = run("start", "--test", script, "--where", "--done-by", "2020-01-01", store=store, code=2)
    assert "this time has passed" in str(refused.exception)


@pytest.mark.parametrize(
    "words",
    [
        ("--where",),
        ("--test", "x.sh", "--done-by", "18:00"),
        ("--test", "x.sh", "--any-size"),
        ("--watch", "--within", "2h"),
    ],
)
def test_options_that_do_not_go_together_say_with_what_they_go(store: str, words: tuple[str, ...]) -> None:
    assert re.search("need|combined", str(run("start", *words, store=store, code=2).exception))


def test_chances_of_wait_and_run_together() -> None:
    wait = Prediction(100.0, (0.25, 0.5, 0.75, 0.9), (50.0, 100.0, 200.0, 400.0))
    runs = run_times(Prediction(60.0, (0.1, 0.5, 0.9), (30.0, 60.0, 300.0)), 120.0)
    assert max(runs) == 120.0, "no run goes beyond the limit"
    assert chance_done(wait, [10.0], 110.0) == pytest.approx(0.5)
    chances = [chance_done(wait, runs, span) for span in (0.0, 50.0, 100.0, 300.0, 500.0)]
    assert chances == sorted(chances)
    assert chances[0] == 0.0


def test_one_sentence_says_between_when_most_likely_and_how_such_answers_came_true(store: str) -> None:
    lines = run("start", "600", store=store).stdout.splitlines()
    (line,) = [line for line in lines if line.startswith("600: ")]
    came_out = "of the jobs started between their two times (target: 80 %)"
    for words in ("most likely", "probability to start within 10 min", "similar predictions", came_out):
        assert words in line


def test_the_sentence_never_names_what_is_not_known() -> None:
    base = 1_000_000.0
    known = {"likely_start_s": base + 7200, "by_10_start_s": base + 3600, "by_90_start_s": base + 10800}
    assert sentence(known, base).startswith("between ")
    assert sentence({**known, "by_90_start_s": float("inf")}, base).startswith("not before ")
    assert coverage_of_similar(known) == "no similar prediction has a known outcome yet"
    assert sentence({**known, "likely_start_s": float("nan")}, base) == ""


def test_tasks_of_an_array_are_one_line_from_the_first_start_to_the_last(capsys: pytest.CaptureFixture[str]) -> None:
    """Each task of an array has its own answer, but an array of hundreds of tasks must not fill the screen."""
    now = 1_000_000.0
    known = {
        "partition": "main", "by_10_start_s": now + 60, "likely_wait_s": 900.0, "by_90_wait_s": 9000.0,
        "waited_s": 60.0, "slurm_start_s": float("nan"), "method": "forecast", "reason_in_words": "jobs are ahead",
        "counts_from": "submission", "basis": "model: behind 2 jobs", "track_record_forecasts": 40,
        "track_record_overdue": 0, "track_record_coverage_90": 0.9, "track_record_median_ae_s": 60.0,
        "track_record_like_this": 40, "track_record_came_true": 0.8,
    }  # fmt: skip
    starts = {k: now + 1000.0 + 100 * k for k in range(1, 300)}
    told = [
        {**known, "job_id": f"7_{k}", "likely_start_s": at, "by_90_start_s": at + 35000.0} for k, at in starts.items()
    ]
    held = {**told[2], "job_id": "7_300", "reason_in_words": "its array runs at most so many tasks at once"}
    print_waiting([*told, held, {**told[1], "job_id": "8"}], now, False)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["7_[1-299]", "7_300", "8"]
    assert re.search(r"\d\d:\d\d:\d\d to \d\d:\d\d:\d\d .*jobs are ahead", lines[1])
    assert sum("similar predictions" in line for line in lines) == 1, "said once where it is the same for all"
    assert any(line.startswith("7_1 (the first of 299): between ") for line in lines)


def test_watching_shows_answers_until_it_is_stopped(store: str) -> None:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("BATCHCAST")}
    command = [sys.executable, "-c", "from batchcast.cli.main import entry; entry()", "start", "600", "--watch"]
    with subprocess.Popen(
        command, env={**clean, "BATCHCAST_STORE": store, "BATCHCAST_CONFIG": os.devnull}, stdout=subprocess.PIPE
    ) as watching:
        assert watching.stdout is not None
        assert any(b"track record on main" in line for line in watching.stdout)
        watching.send_signal(signal.SIGTERM)
        assert watching.wait(30) == 0


@pytest.fixture
def mostly_short(store: str, tmp_path: Path) -> str:
    """Of 60 jobs, 36 were predicted to wait 30 s and did not wait; 24 were predicted to wait 1 h, at most 2 h, and half
    of these waited 3 h.

    Over all jobs 80 % started by their 90 % time, but the many short waits hide that only half of the waiting jobs did.
    """
    place = tmp_path / "short.db"
    with sqlite3.connect(store) as here, sqlite3.connect(place) as copy:
        here.backup(copy)
        ran = "SELECT row FROM jobs WHERE start_time IS NOT NULL ORDER BY row"
        for k, (row,) in enumerate(copy.execute(ran).fetchall()):
            told, at_most = (30.0, 60.0) if k % 5 < 3 else (3600.0, 7200.0)
            waited = 0.0 if told < 600.0 else 10800.0 if k % 5 == 3 else 1800.0
            quantiles = json.dumps([told / 2, told, at_most])
            said = "point_s = ?, levels = '[0.1, 0.5, 0.9]', quantiles_s = ?, grounds = 'model'"
            forecast = f"UPDATE forecasts SET {said} WHERE row = ? AND kind = 'wait' AND moment = 'submit'"
            copy.execute(forecast, (told, quantiles, row))
            copy.execute("UPDATE jobs SET start_time = submit_time + ? WHERE row = ?", (waited, row))
        # these jobs are long overdue, and count as open
        copy.execute("UPDATE jobs SET open = 0 WHERE start_time IS NULL")
    here.close()
    copy.close()
    return str(place)


def test_whether_to_believe_it_is_said_for_those_who_wait(mostly_short: str) -> None:
    belief = json.loads(run("accuracy", "--json", store=mostly_short).stdout)["settings"]["belief"]
    assert [one["of"] for one in belief] == [
        "predicted waits of 10 min or more", "shorter predicted waits", "partition main",
        "predicted waits of 1 h to 4 h"
    ]  # fmt: skip
    first, short, partition, _ = belief
    assert (first["forecasts"], first["coverage_90"], first["verdict"]) == (24, 0.5, "too early")
    assert (short["forecasts"], short["coverage_90"]) == (36, 1.0)
    assert partition["coverage_90"] == 0.5, "partitions are of the same jobs"
    lines = run("accuracy", store=mostly_short).stdout.splitlines()
    assert lines[0] == "how reliable are predicted starts? (by recent_wait, last 30 days)", "the answer comes first"
    assert lines[1].startswith("  predicted waits of 10 min or more: not reliable: only 50 % of 24")


def test_the_page_answers_for_those_who_wait(mostly_short: str) -> None:
    from batchcast.service.answers.accuracy import calibration
    from batchcast.service.answers.disclosure import Viewer
    from batchcast.service.settings import load

    shown = calibration(load({"store": mostly_short}, {}), Viewer(None, sees_all=True), time.time())
    assert (shown["of"], shown["headline"]["coverage_90"], shown["short"]["coverage_90"]) == ("long", 0.5, 1.0)
    assert shown["forecasts"] == 60
    assert dict(shown["reliability"])[0.9] == 0.5


def test_who_is_told_to_wait_hears_how_such_answers_came_out(mostly_short: str) -> None:
    from batchcast.service.answers.track_record import record_fields, track_record
    from batchcast.store.reader import Reader

    reader = Reader(mostly_short)
    record = track_record(reader, "c", "main", "recent_wait", 0.0)
    reader.close()
    assert record["coverage_90"] == 0.8
    told = {seconds: record_fields(record, seconds) for seconds in (30.0, 3600.0)}
    assert (told[30.0]["track_record_coverage_90"], told[30.0]["track_record_of"]) == (0.8, "all")
    assert (told[3600.0]["track_record_coverage_90"], told[3600.0]["track_record_of"]) == (0.5, "10 min or more")
    assert told[3600.0]["track_record_forecasts"] == 24


def test_accuracy_says_whether_to_believe_it(store: str, private: str) -> None:
    text = run("accuracy", store=store).stdout
    assert "how reliable are predicted starts? (by recent_wait" in text
    assert "  all jobs (too few had predicted waits of 10 min or more): " in text, "here waits are of a minute"
    assert "  partition main: " in text
    assert re.search(r"    \[#*\.*\|[#.]+\]", text), "a picture beside"
    belief = json.loads(run("accuracy", "--json", store=store).stdout)["settings"]["belief"]
    assert [one["of"] for one in belief][:2] == [
        "all jobs (too few had predicted waits of 10 min or more)",
        "partition main",
    ]
    assert all(one["verdict"] in ("believe", "too early", "too late", "unknown") for one in belief)


MACHINE = """[[nodes]]
names = "n[1-2]"
cpus = 4
[[partition]]
name = "main"
nodes = "n[1-2]"
default = true
"""


def test_a_script_is_simulated_on_a_described_machine_too(store: str, script: str, tmp_path: Path) -> None:
    (tmp_path / "machine.toml").write_text(MACHINE)
    words = ("start", "--test", script, "--machine", str(tmp_path / "machine.toml"))
    (answer,) = json.loads(run(*words, "--json", store=store).stdout)["results"]
    assert answer["simulated_wait_s"] >= 0
    assert "simulated on the machine: " in run(*words, store=store).stdout
    (tmp_path / "machine.toml").write_text(MACHINE.replace("n[1-2]", "n1"))
    (answer,) = json.loads(run(*words, "--json", store=store).stdout)["results"]
    assert "larger than its partition" in answer["simulated_why"]
    (tmp_path / "machine.toml").write_text(MACHINE.replace("cpus = 4", 'cpus = 4\ndown = "n2"'))
    (answer,) = json.loads(run(*words, "--json", store=store).stdout)["results"]
    assert "nodes, limits or reservations prevent its start" in answer["simulated_why"]
    assert "--test" in str(run("start", "--machine", "x.toml", store=store, code=2).exception)


def test_the_qos_that_ones_jobs_had_on_a_partition_are_ways_too(store: str, script: str, tmp_path: Path) -> None:
    copy = tmp_path / "s.db"
    with sqlite3.connect(store) as one, sqlite3.connect(copy) as other:
        one.backup(other)
        other.execute("UPDATE jobs SET qos = CASE WHEN row % 3 THEN 'normal' ELSE 'long' END WHERE user_id = ?", (ME,))
        other.execute("UPDATE jobs SET qos = 'secret' WHERE user_id <> ?", (ME,))
    results = where(str(copy), script)
    asked = [r for r in results if r["what"] == "as requested"]
    assert {r["qos"] for r in asked} == {"normal", "long"}, "others' QOS are not one's own"
    (named,) = [r["flags"] for r in asked if "--qos" in r["flags"]]
    assert re.search(r"--qos=(long|normal) ", named)
    shown = run("start", "--test", script, "--where", store=str(copy)).stdout
    assert shown.splitlines()[0].split()[:3] == ["PARTITION", "QOS", "WHAT"]


def test_the_page_does_not_call_a_record_too_small_that_is_still_being_read(store: str) -> None:
    """Regression: a minute after its start, the service had 855 answers with an outcome, and reported that there were
    too few."""
    from types import SimpleNamespace

    from batchcast.service.answers.disclosure import Viewer
    from batchcast.service.page.jobs import my_jobs
    from batchcast.service.page.routes import text_of
    from batchcast.service.page.texts import language_of
    from batchcast.service.settings import load

    viewer = Viewer(ME, sees_all=True)
    service = SimpleNamespace(settings=load({"store": store}, {}))
    request = SimpleNamespace(
        state=SimpleNamespace(service=service, viewer=viewer), url=SimpleNamespace(path="/jobs"),
        query_params={}, cookies={}, headers={}, scope={},
    )  # fmt: skip

    def shown(known: dict) -> str:
        data = my_jobs(load({"store": store}, {}), ME, viewer, time.time(), known)
        return text_of(language_of("en"), "jobs.html.j2", request, **data) + str(data["stale"])

    too_few, pending = "Too few similar predictions", "is being computed"
    assert too_few not in shown({})
    assert pending in shown({})
    assert too_few in shown({(None, 1): {}})
    assert pending not in shown({(None, 1): {}})
