"""Tests CSV logs on the command line: maps by name and by file, notes, conversion in both directions, Batsim's
schedule."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from batchcast.cli.main import cli
from batchcast.testing import small_log
from batchcast.trace import demo_path, read_trace, write_parquet

MAP = """
procs_total = 32
[columns]
job_id = "id"
submit_time = "sub"
start_time = "start"
end_time = "end"
req_time = { from = "wall", unit = "minutes" }
req_procs = "cores"
user_id = "who"
"""
ROWS = "\n".join(f"{k},{60 * k},{60 * k + 5},{60 * k + 90},5,4,u{k % 3}" for k in range(1, 80))


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words))


@pytest.fixture
def site(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "jobs.csv").write_text(f"id,sub,start,end,wall,cores,who\n{ROWS}\n999,,,,,,\n")
    (tmp_path / "site.toml").write_text(MAP)
    return str(tmp_path / "jobs.csv"), str(tmp_path / "site.toml")


@pytest.mark.parametrize("verb", [["info"], ["runtime", "--predictor", "last_2"], ["wait"], ["simulate"]])
def test_every_verb_reads_it_through_its_map(site, verb) -> None:
    log, mapped = site
    done = run(verb[0], log, *verb[1:], "--map", mapped, "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["settings"]["map"] == "site"
    assert (document["log"]["format"], document["log"]["jobs"]) == ("csv", 79)
    assert document["log"]["machine_procs"] == 32
    assert sum(n for why, n in document["log"]["dropped"].items() if "no submit time" in why) == 1
    assert any("through the map site" in line for line in document["warnings"])


def test_without_a_map_the_next_step_is_named(site) -> None:
    done = run("info", site[0])
    assert "--map FILE.toml" in str(done.exception)


def test_convert_to_csv_says_what_is_lost_and_is_read_back(tmp_path: Path) -> None:
    out = tmp_path / "demo.csv"
    done = run("convert", str(demo_path()), "-o", str(out))
    assert "CSV has no field for: the machine's size" in done.stderr
    demo, back = read_trace(demo_path()), read_trace(out)
    assert np.array_equal(back.run_time, demo.run_time, equal_nan=True)
    assert back.nominal("user_id").decode() == demo.nominal("user_id").decode()
    assert np.array_equal(back.submit_time, demo.submit_time + demo.info.unix_start)
    write_parquet(small_log(20), tmp_path / "small.parquet")
    done = run("convert", str(tmp_path / "small.parquet"), "-o", str(tmp_path / "small.swf"), "--json")
    assert json.loads(done.stdout)["warnings"][-2:] == [
        "SWF has no field for: job_name, account, req_gpus, work_dir, elapsed, outcome",
        "SWF has numbers instead of names for: user_id",
    ]  # fmt: skip


def test_a_schedule_in_batsims_columns(tmp_path: Path) -> None:
    out = tmp_path / "jobs.csv"
    words = ["simulate", str(demo_path()), "--first", "200", "-o", str(out)]
    assert run(*words, "--schedule-format", "batsim").exit_code == 0
    with out.open() as file:
        rows = list(csv.DictReader(file))
    widths = [
        sum(int(high or low) - int(low) + 1 for low, _, high in (part.partition("-") for part in held.split()))
        for held in (row["allocated_resources"] for row in rows)
    ]
    assert widths == [int(row["requested_number_of_resources"]) for row in rows]
    assert {row["final_state"] for row in rows} <= {
        "COMPLETED_SUCCESSFULLY", "COMPLETED_FAILED", "COMPLETED_KILLED", "COMPLETED_WALLTIME_REACHED"
    }  # fmt: skip
    done = run(*words[:-1], str(tmp_path / "absent" / "x.csv"))
    assert "cannot be written" in str(done.exception)
