"""Tests `batchcast info`: correct figures, the source of the machine's size, and one error message for bad input."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from batchcast.cli.main import cli
from batchcast.errors import BatchcastError, NoAnswer

LOG = """; MaxProcs: 8 (4 nodes)
; UnixStartTime: 1000000000
; TimeZoneString: Europe/Stockholm
; Queue: 3 express (2 hours)
1 0 10 100 4 -1 -1 4 3600 -1 1 1 1 -1 3 -1 -1 -1
2 60 0 3600 4 -1 -1 4 3600 -1 1 2 1 -1 1 -1 -1 -1
3 61 -1 4000 4 -1 -1 4 3600 -1 0 2 1 -1 1 -1 -1 -1
4 80 300 -1 -1 -1 -1 9 7000 -1 5 1 1 -1 3 -1 -1 -1
5 90 0 0 1 -1 -1 1 -1 -1 1 1 1 -1 3 -1 -1 -1
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "small.swf"
    path.write_text(LOG)
    return path


def run(*arguments: str) -> dict:
    result = CliRunner().invoke(cli, ["info", *arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def part(document: dict, name: str, key: str) -> dict:
    return {row[key]: row for row in document["results"] if row["part"] == name}


def test_counts_dates_and_users_accuracy(log: Path) -> None:
    document = run(str(log))
    assert document["schema"] == "batchcast/info/1"
    assert document["log"]["first_submit"] == "2001-09-09 03:46:40"
    assert (document["log"]["machine_procs"], document["log"]["machine_procs_source"]) == (8, "header")
    summary = document["results"][0]
    expected = {
        "jobs": 5,
        "ran": 4,
        "never_ran": 1,
        "span_s": 4061.0,
        "peak_procs": 12.0,
        "widest_job_procs": 9.0,
        "jobs_wider_than_machine": 1,
        "jobs_with_run_and_request": 3,
        "request_used_median": 1.0,
        "request_used_below_10": pytest.approx(1 / 3),
        "request_used_above_100": pytest.approx(1 / 3),
        "usual_requests_s": [3600.0, 7000.0],
        "whole_hour_requests": 0.75,
    }
    assert {key: summary[key] for key in expected} == expected


def test_fields_endings_cleaning_and_irregularities(log: Path) -> None:
    document = run(str(log))
    fields = part(document, "field", "field")
    assert fields["req_time"]["known"] == 0.8
    assert fields["user_id"]["distinct"] == 2
    assert "app_id" not in fields
    assert {k: r["jobs"] for k, r in part(document, "status", "status").items()} == {
        "completed": 3,
        "failed": 1,
        "cancelled": 1,
    }
    drops = {k: r["drops"] for k, r in part(document, "clean", "rule").items()}
    assert drops == {
        "reference": 2,
        "no_run": 1,
        "zero_run": 1,
        "no_procs": 0,
        "no_request": 1,
        "wide": 1,
        "partial": 0,
        "duplicates": 0,
    }
    odd = {k: r["jobs"] for k, r in part(document, "irregularity", "irregularity").items()}
    assert odd["never ran: withdrawn"] == 1
    assert odd["ran without a recorded wait: started at submit"] == 1


def test_selection_and_cleaning_apply_and_are_counted(log: Path) -> None:
    document = run(str(log), "--queue", "express", "--clean", "zero_run", "--first", "1")
    assert document["results"][0]["jobs"] == 1
    assert document["log"]["dropped"] == {
        "clean zero_run: run time 0": 1,
        "not selected: --queue express": 2,
        "not selected: --first 1": 1,
    }
    assert document["settings"]["queue"] == ["express"]


@pytest.mark.parametrize(
    ("option", "size", "source"),
    [([], 8.0, "header"), (["--procs-total", "16"], 16.0, "--procs-total"), (["--procs-total", "peak"], 12.0, "peak")],
)
def test_how_the_machines_size_is_known(log: Path, option: list[str], size: float, source: str) -> None:
    about = run(str(log), *option)["log"]
    assert (about["machine_procs"], about["machine_procs_source"]) == (size, source)


def test_without_a_size_the_peak_is_shown_but_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("\n".join(LOG.splitlines()[1:]))
    result = CliRunner().invoke(cli, ["info", str(path)])
    assert "size unknown" in result.stdout
    assert "12 at once" in result.stdout
    assert run(str(path))["log"]["machine_procs"] is None


def test_the_table_tells_zone_machine_accuracy_and_notes(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(LOG + "1 2 3\n")
    result = CliRunner().invoke(cli, ["info", str(path)])
    assert result.exit_code == 0
    for words in ("Europe/Stockholm", "more than it has", "33.3 % of the jobs", "3 fields instead of 18", "line 10"):
        assert words in result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--strict"], "log:10: 3 fields instead of 18"),
        (["--from", "2040-01-01"], "jobs were submitted from 2001-09-09"),
        (["--procs-total", "lots"], "accepted: a number above 0, or peak"),
        (["--clean", "refrence"], "accepted: reference"),
        (["--clean", "reference", "--procs", "req"], "implies --procs alloc"),
        (["--timezone", "Mars/Olympus"], "not a time zone"),
    ],
)
def test_what_cannot_be_done_is_one_message(tmp_path: Path, arguments: list[str], words: str) -> None:
    path = tmp_path / "log"
    path.write_text(LOG + "1 2 3\n")
    result = CliRunner().invoke(cli, ["info", str(path), *arguments])
    assert isinstance(result.exception, BatchcastError)
    assert words in str(result.exception)


def test_a_log_may_come_through_a_pipe_packed() -> None:
    result = CliRunner().invoke(cli, ["info", "-", "--json"], input=gzip.compress(LOG.encode()))
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["log"]["source"] == "standard input"


@given(
    st.one_of(st.binary(max_size=300), st.text(max_size=200).map(str.encode)),
    st.sampled_from([b"", LOG.encode(), b"JobID|Submit|State\n"]),
)
def test_whatever_the_bytes_no_traceback(junk: bytes, before: bytes) -> None:
    result = CliRunner().invoke(cli, ["info", "-"], input=before + junk)
    assert result.exit_code == 0 or isinstance(result.exception, BatchcastError), result.exception


def test_errors_reach_a_shell_as_a_message_and_an_exit_code(tmp_path: Path) -> None:
    script = "from batchcast.cli.main import entry; entry()"
    done = subprocess.run(
        [sys.executable, "-c", script, "info", str(tmp_path / "none.swf")],
        capture_output=True,
        text=True,
        env=os.environ,
    )
    assert done.returncode == 1
    assert "no such file" in done.stderr
    assert "Traceback" not in done.stderr


def test_memory_is_told_and_a_copy_of_the_request_is_no_measurement(tmp_path: Path) -> None:
    line = "{} {} 0 100 4 -1 {} 4 3600 {} 1 1 1 -1 3 -1 -1 -1\n"
    honest, copy = tmp_path / "honest.swf", tmp_path / "copy.swf"
    honest.write_text("".join(line.format(k, k, 1024 * (k % 3), 4096) for k in range(1, 31)))
    copy.write_text("".join(line.format(k, k, 4096, 4096) for k in range(1, 31)))
    told = next(row for row in run(str(honest))["results"] if row["part"] == "memory")
    assert (told["per"], told["asked"], told["measured"], told["zeros"]) == ("processor", 30, 20, 10)
    assert (told["median_asked_kib"], told["median_used_kib"], told["used_total"]) == (4096.0, 1536.0, 0.375)
    unmeasured = tmp_path / "unmeasured.swf"
    unmeasured.write_text("".join(line.format(k, k, -1, 4096) for k in range(1, 31)))
    shown = " ".join(CliRunner().invoke(cli, ["info", str(unmeasured)]).stdout.split())
    assert "used at the peak no job has a measurement" in shown
    assert "used, in all unknown" not in shown
    shown = CliRunner().invoke(cli, ["info", str(copy)]).stdout
    assert "not measured: it equals the request in 100.0 % of the jobs that have both" in " ".join(shown.split())
    assert "10 jobs have a use of 0" in " ".join(CliRunner().invoke(cli, ["info", str(honest)]).stdout.split())


SACCT = "JobID|Submit|Start|End|ElapsedRaw|ReqCPUS|State|Cluster"
RUN = "2026-01-31T10:00:00|2026-01-31T10:10:00|2026-01-31T10:20:00|600|4|COMPLETED"


def test_overlapping_dumps_count_common_jobs_once_and_say_so(tmp_path: Path) -> None:
    january, february = tmp_path / "january.txt", tmp_path / "february.txt"
    january.write_text("\n".join([SACCT, f"1|{RUN}|alpha", f"2|{RUN}|alpha", ""]))
    february.write_text("\n".join([SACCT, f"2|{RUN}|alpha", f"3|{RUN}|alpha", ""]))
    document = run(str(january), str(february))
    assert document["log"]["jobs"] == 3
    assert document["log"]["source"] == f"{january}, {february}"
    assert "1 record left out (identical to another record)" in document["warnings"]
    assert run(str(january), str(february), "--keep-repeats")["log"]["jobs"] == 4


def test_clusters_are_named_and_one_is_chosen(tmp_path: Path) -> None:
    log = tmp_path / "clusters.txt"
    log.write_text("\n".join([SACCT, f"1|{RUN}|alpha", f"1|{RUN}|beta", f"2|{RUN}|beta", ""]))
    warnings = run(str(log))["warnings"]
    note = "the log has jobs of 2 clusters (beta 2, alpha 1), read as one machine: --cluster NAME chooses one"
    assert note in warnings
    chosen = run(str(log), "--cluster", "alpha")
    assert chosen["log"]["jobs"] == 1
    assert chosen["settings"]["cluster"] == ["alpha"]


def test_every_format_that_python_reads_can_be_named(tmp_path: Path) -> None:
    workload = tmp_path / "w.json"
    workload.write_text('{"nb_res": 4, "jobs": [{"id": "1", "subtime": 0, "res": 4, "walltime": 60, "profile": "p"}], '
                        '"profiles": {"p": {"type": "delay", "delay": 30}}}')  # fmt: skip
    assert run(str(workload), "--format", "batsim")["log"]["format"] == "batsim"


def test_an_earlier_size_of_one_job_is_said_in_the_singular(tmp_path: Path) -> None:
    log = tmp_path / "resized.txt"
    last = RUN.replace("2026-01-31T10:20", "2026-01-31T10:30")
    log.write_text("\n".join([SACCT, f"5|{RUN.replace('COMPLETED', 'RESIZING')}|alpha", f"5|{last}|alpha", ""]))
    assert "1 record describes an earlier size of a job (RESIZING)" in run(str(log))["warnings"]


def test_from_takes_the_days_that_report_takes(tmp_path: Path) -> None:
    log = tmp_path / "old.txt"
    log.write_text(f"{SACCT}\n1|{RUN}|alpha\n")
    for when in ("yesterday", "now-7days"):
        assert run(str(log), "--to", when)["log"]["jobs"] == 1
        with pytest.raises(NoAnswer, match="the selection leaves no job"):
            CliRunner().invoke(cli, ["info", str(log), "--from", when], catch_exceptions=False)
