"""Tests `batchcast wait` as its user sees it."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.forked import batchcast

from batchcast.testing.logs import small_log

KEYS = {
    "jobs", "quick_share", "quick_identified", "quick_bounded", "misguided_share", "misguided_under_4h", "rms_error_s",
    "normalised_rms", "mean_ppert", "good_share", "bound_coverage", "near_share", "near_jobs", "mean_abs_error_s",
    "median_abs_error_s", "within_x2", "within_x3", "seconds",
}  # fmt: skip

CHECKOUT = Path(__file__).parents[3]  # where MARKS can be imported
MARKS = "tests.quick_marks:SmallJobsFirst"


def run(*arguments):
    return batchcast("wait", *arguments, cwd=CHECKOUT)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    trace = small_log(200)
    wait = np.where(np.arange(200) == 7, -9.0, trace.wait_time)
    wait[8] = -1
    fields = np.full((200, 18), -1.0)
    fields[:, 0], fields[:, 1], fields[:, 2] = np.arange(1, 201), trace.submit_time, wait
    fields[:, 3], fields[:, 7] = np.nan_to_num(trace.run_time, nan=-1), trace.procs()
    fields[:, 8] = np.where(np.isfinite(trace.req_time), trace.req_time, -1)
    fields[:, 11] = trace.nominal("user_id").codes
    fields[9, 7] = 999
    path = tmp_path_factory.mktemp("logs") / "small.swf"
    path.write_text("; MaxProcs: 64\n" + "\n".join(" ".join(f"{v:g}" for v in row) for row in fields) + "\n")
    return path


def test_one_document_with_a_row_a_method_and_threshold(log):
    done = run(log, "--predictor", f"recent_wait,{MARKS}", "--places", "101:", "--quick-wait", "10m..20m", "--json")
    assert done.returncode == 0, done.stderr
    doc = json.loads(done.stdout)
    assert doc["schema"] == "batchcast/wait/1"
    assert [(r["predictor"], r["quick_s"]) for r in doc["results"]] == [
        ("recent_wait", 600), ("recent_wait", 1200), (MARKS, 600), (MARKS, 1200)
    ]  # fmt: skip
    assert all(set(row) >= KEYS for row in doc["results"])
    assert {row["protocol"] for row in doc["results"]} == {"honest", "starts_first"}
    assert {row["jobs"] for row in doc["results"]} == {100}
    assert all(0 <= row["identified_at_marks"] <= 1 for row in doc["results"])
    assert doc["settings"]["search_s"] == {MARKS: 1.5}
    assert doc["settings"]["cancelled"] == "count"
    said = " ".join(doc["warnings"])
    for words in ("wait (start before submission): negative", "no recorded wait", "larger than the machine"):
        assert words in said


def test_the_usual_table_says_how_to_score_the_main_method(log):
    usual, chosen = run(log), run(log, "--predictor", "recent_wait")
    assert "Next: add --predictor recent_wait,forecast to score the method that answers users" in " ".join(
        usual.stdout.split()
    )
    assert "Next: add --predictor recent_wait,forecast" in chosen.stdout


def test_the_table_names_clocks(log):
    done = run(log, "--predictor", f"recent_wait,{MARKS}")
    assert done.returncode == 0, done.stderr
    assert "honest clock" in done.stdout
    assert "clock of the paper" in done.stdout
    assert "Small jobs count as quick." in done.stdout
    assert "1.5 s to find settings" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--places", "5"], 2, "FIRST:LAST"),
        (["--places", "900:999"], 3, "wider --places"),
        (["--quick-wait", "soon"], 2, "not a duration with a unit"),
        (["--predictor", "recent_waits"], 2, "did you mean recent_wait"),
    ],
)
def test_refuses_in_words(log, arguments, code, words):
    done = run(log, *arguments)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)
    assert words in done.stderr


def test_a_log_without_waits_has_no_answer(tmp_path):
    path = tmp_path / "no.swf"
    path.write_text(
        "; MaxProcs: 4\n" + "".join(f"{k} {k} -1 5 1 -1 -1 1 60 -1 1 1 1 1 1 1 -1 -1\n" for k in range(1, 9))
    )
    done = run(path)
    assert done.returncode == 3
    assert "no job has a recorded wait" in done.stderr


def crafted(path, spoil=None, wait=None):
    """A log of 400 jobs on 16 processors; `spoil` makes some recorded waits invalid by adding `wait` seconds."""
    rng = np.random.default_rng(0)
    lines = ["; MaxProcs: 16"]
    for k in range(400):
        submit, waited, procs = 600 * k, int(rng.integers(0, 900)), int(rng.integers(1, 8))
        if spoil == "outage":  # for days no job arrives or starts, although there is room
            submit += 400000 * (k >= 210)
            waited = wait - 600 * (k - 200) if 200 <= k < 210 else waited
        elif spoil and 100 <= k < 300 and k % 10 == 7:
            waited, procs = wait, 64 if spoil == "larger" else procs
        lines.append(f"{k + 1} {submit} {waited} 500 {procs} -1 -1 {procs} 1200 -1 1 {k % 5} 1 -1 1 -1 -1 -1")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("spoil", "waits", "words"),
    [
        ("outage", (200000, 380000), "10 jobs are not learned from: waited through an outage"),
        ("negative", (-300, -86400), "20 values of wait (start before submission): negative"),
        ("larger", (300, 400), "20 jobs are not learned from: larger than the machine"),
        ("unknown", (-1, -1), "20 jobs are not learned from: no recorded wait"),
    ],
)
def test_what_is_no_wait_is_said_and_not_learned_from(tmp_path, spoil, waits, words):
    """Checks that the scores of later jobs do not depend on the length of the invalid waits."""
    told = []
    for k, wait in enumerate(waits):
        path = crafted(tmp_path / f"{k}.swf", spoil, wait)
        done = run(path, "--predictor", "recent_wait,recent_wait:k=9", "--places", "320:9000", "--json")
        assert done.returncode == 0, done.stderr
        doc = json.loads(done.stdout)
        assert any(w.startswith(words) for w in doc["warnings"]), doc["warnings"]
        assert any("so 320:400 are scored" in w for w in doc["warnings"])
        assert {row["jobs"] for row in doc["results"]} == {81}
        told.append([{k: v for k, v in row.items() if k != "seconds"} for row in doc["results"]])
    assert told[0] == told[1]


def test_a_page_shows_whether_forecasts_can_be_believed(log, tmp_path):
    page = tmp_path / "waits.html"
    done = run(log, "--predictor", "recent_wait,recent_wait:k=9", "--places", "51:", "-o", page)
    assert done.returncode == 0, done.stderr
    html = page.read_text()
    for words in (
        "Reliability of the quantiles",
        "Finding jobs that start within",
        "Mean error by range",
        "By processors",
    ):
        assert words in html
    assert f"page: {page}" in done.stderr
