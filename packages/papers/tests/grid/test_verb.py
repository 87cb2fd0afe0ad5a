"""Tests `batchcast grid` as a user sees it."""

import csv
import itertools
import json

import numpy as np
import pytest
from click.testing import CliRunner

from batchcast.broker.verb import command
from batchcast.errors import BatchcastError

MATRIX = "3 2 0\n4\n9\n2\n3\n5\n1\n"
PLATFORM = """[[resource]]
id = "fast"
count = 2
speed = 100
bandwidth = 10
attributes = { procs = 8 }
"""
JOBS = "id,instructions,file_mb,arrival,deadline\na,100,0,0,5\nb,100,10,0,1\nc,oops,0,0,5\na,100,0,1,5\nd,100,0,3,2\n"


def run(*words):
    result = CliRunner().invoke(command, [str(w) for w in words])
    if isinstance(result.exception, BatchcastError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def files(tmp_path):
    (tmp_path / "m.etc").write_text(MATRIX)
    (tmp_path / "p.toml").write_text(PLATFORM)
    (tmp_path / "j.csv").write_text(JOBS)
    return tmp_path


def test_map_prints_one_document_with_the_makespan(tmp_path):
    doc = json.loads(run("map", files(tmp_path) / "m.etc", "--heuristic", "min_min,met", "--json"))
    assert doc["schema"] == "batchcast/grid-map/1"
    assert [(row["heuristic"], row["makespan"]) for row in doc["results"]] == [("min_min", 6.0), ("met", 6.0)]


def test_map_writes_the_plan(tmp_path):
    run("map", files(tmp_path) / "m.etc", "--heuristic", "mct", "--plan", tmp_path / "plan.csv")
    assert (tmp_path / "plan.csv").read_text().splitlines()[1] == "0,0,0.000000,4.000000"


@pytest.mark.parametrize("header", ["3 2", "3 2 0"])
def test_a_header_of_two_words_or_three(tmp_path, header):
    (tmp_path / "m").write_text(header + MATRIX[5:])
    doc = json.loads(run("map", tmp_path / "m", "--heuristic", "min_min", "--json"))
    assert doc["results"][0]["makespan"] == 6.0


@pytest.mark.long
def test_all_and_exact_run_each_once(tmp_path):
    doc = json.loads(run("map", files(tmp_path) / "m.etc", "--heuristic", "all,exact", "--seconds", "1", "--json"))
    names = [row["heuristic"] for row in doc["results"]]
    assert sorted(names) == sorted(set(names))
    assert "exact" in names


def test_a_matrix_too_large_for_exact_keeps_the_other_rows(tmp_path):
    run("draw", "--jobs", 8000, "--resources", 8, "--kind", "c_lolo", "-o", tmp_path / "m")
    doc = json.loads(run("map", tmp_path / "m", "--heuristic", "mct,exact", "--json"))
    one, other = doc["results"]
    assert one["makespan"] > 0
    assert "60,000 columns" in other["note"]
    assert any("exact left out" in words for words in doc["warnings"])


def test_deadlines_and_files_from_a_file(tmp_path):
    place = files(tmp_path)
    (place / "d.csv").write_text("deadline,file_mb\n8,10\n4,0\n,0\n")
    doc = json.loads(
        run("map", place / "m.etc", "--jobs", place / "d.csv", "--bandwidth", "10,5", "--heuristic", "all", "--json")
    )
    rows = {row["heuristic"]: row for row in doc["results"]}
    assert rows["emin_min"]["in_time"] == rows["ebest"]["in_time"] == rows["best_fit"]["in_time"] == 3
    assert rows["best_fit"]["mean_finish"] > rows["emin_min"]["mean_finish"]
    assert rows["met"]["makespan"] == 4 + 10 / 10 + 2  # the first resource has both transfers and both runs


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [("deadline\n1\n2\n", (), "2 rows"), ("deadline\n1\nx\n2\n", (), "deadline of job 1"),
     ("deadline,file_mb\n1,1\n1,1\n1,1\n", (), "how fast"), ("due\n1\n1\n1\n", (), "deadline"),
     ("deadline,file_mb\n1,1\n1,1\n1,1\n", ("--bandwidth", "1,2,3"), "3 values")],
)  # fmt: skip
def test_a_wrong_file_of_deadlines_is_one_message(tmp_path, text, words, said):
    place = files(tmp_path)
    (place / "d.csv").write_text(text)
    with pytest.raises(BatchcastError, match=said):
        run("map", place / "m.etc", "--jobs", place / "d.csv", "--heuristic", "mct", *words)


def test_what_needs_deadlines_is_refused_without_them(tmp_path):
    with pytest.raises(BatchcastError, match="latest end within the deadline"):
        run("map", files(tmp_path) / "m.etc", "--heuristic", "ebest,best_fit")
    doc = json.loads(run("map", tmp_path / "m.etc", "--heuristic", "all", "--json"))
    refused = {row["heuristic"] for row in doc["results"] if "note" in row}
    assert refused == {"ebest", "best_fit"}


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "empty"), ("x y z", "not an expected-time matrix"), ("2 2 0\n1\n2\n3\n", "3 times"),
     ("0 4 0\n", "empty grid"),
     ("1 2 0\n1\nnan\n", "job 0 on resource 1"), ("1 2 0\n1\nabc\n", "abc"), ("1 1 0\n-4\n", "-4")],
)  # fmt: skip
def test_a_broken_matrix_is_one_message(tmp_path, text, said):
    (tmp_path / "bad").write_text(text)
    with pytest.raises(BatchcastError, match=said):
        run("map", tmp_path / "bad", "--heuristic", "mct")


def test_jobs_from_csv_are_all_accounted_for(tmp_path):
    place = files(tmp_path)
    doc = json.loads(
        run("simulate", "--jobs", place / "j.csv", "--platform", place / "p.toml", "--heuristic", "emin_min,mct",
            "--map-every", "events", "--json")
    )  # fmt: skip
    for row in doc["results"]:
        assert (row["submitted"], row["assigned"], row["unfinished"]) == (5, 1, 4)
        assert row["reason: rejected: unusable"] == 2
    said = " ".join(doc["warnings"])
    assert "id already submitted" in said
    assert "1 job with a deadline at or before the arrival" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--rate", "30:20:2"], "FROM:TO:STEP"), (["--data-share", "1.5"], "out of range"), (["--jobs", "0"], "empty"),
     (["--map-every", "soon"], "not a number"), (["--map-every", "0"], "above 0"),
     (["--heuristic", "emin_mim"], "emin_min"),
     (["--rate", "0"], "out of range"), (["--compute-unit", "0"], "above 0")],
)  # fmt: skip
def test_wrong_options_name_what_is_accepted(words, said):
    with pytest.raises(BatchcastError, match=said):
        run("simulate", *words)


@pytest.mark.parametrize("line", ["speed = 0", "speed = nan", 'speed = "quick"', "speed = 1\nspede = 2"])
def test_a_broken_platform_names_the_resource(tmp_path, line):
    (tmp_path / "p.toml").write_text(f'[[resource]]\nid = "r"\nbandwidth = 1\n{line}\n')
    (tmp_path / "j.csv").write_text(JOBS)
    with pytest.raises(BatchcastError, match=r"r'|resource 0|r: speed"):
        run("simulate", "--jobs", tmp_path / "j.csv", "--platform", tmp_path / "p.toml", "--heuristic", "mct")


def test_drawn_runs_have_intervals_and_a_page(tmp_path):
    doc = json.loads(
        run("simulate", "--jobs", 80, "--rate", "20,30", "--heuristic", "min_min,emin_min", "--runs", 2,
            "--workers", 1, "-o", tmp_path / "page.html", "--json")
    )  # fmt: skip
    assert len(doc["results"]) == 4
    assert doc["settings"]["seed"] == 1
    for row in doc["results"]:
        assert row["assigned"] + row["unfinished"] == 80
        assert row["unfinished_ci95"] >= 0
    assert "Gantt" in (tmp_path / "page.html").read_text()


def test_outcomes_give_every_job_a_reason_and_an_instant(tmp_path):
    place = files(tmp_path)
    run("simulate", "--jobs", place / "j.csv", "--platform", place / "p.toml", "--heuristic", "emin_min,mct",
        "--map-every", "events", "--outcomes", place / "o.csv")  # fmt: skip
    rows = list(csv.DictReader((place / "o.csv").open()))
    assert [(row["heuristic"], row["id"]) for row in rows] == [(h, i) for h in ("emin_min", "mct") for i in "abcad"]
    ours = rows[:5]
    assert ours[0] == {"heuristic": "emin_min", "id": "a", "outcome": "finished in time", "instant": "1.000000",
                       "resource": "fast.0", "start": "0.000000", "finish": "1.000000"}  # fmt: skip
    assert ours[2]["outcome"].startswith("rejected: instructions")
    assert ours[3]["outcome"] == "rejected: id already submitted"
    assert (ours[4]["outcome"], ours[4]["instant"]) == ("deadline too tight even for an idle grid", "3.000000")


@pytest.mark.long
def test_a_time_box_ends_the_search_whatever_the_kicks(tmp_path, monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr("batchcast_papers.grid.runs.perf_counter", lambda: float(next(clock)))
    times = np.random.default_rng(0).uniform(1, 100, (40, 5))
    (tmp_path / "m.etc").write_text("40 5 0\n" + "\n".join(f"{t:.4f}" for t in times.ravel()))
    doc = json.loads(run("map", tmp_path / "m.etc", "--heuristic", "search", "--seconds", "30", "--json"))
    assert 30 < next(clock) < 40  # the clock was read until the box was used up, and not again
    assert doc["results"][0]["over_bound"] < 0.2


def test_a_simulation_without_deadlines_refuses_what_needs_them(tmp_path):
    place = files(tmp_path)
    (place / "n.csv").write_text("id,instructions,file_mb,arrival\na,100,1,0\nb,100,1,1\n")
    words = ("simulate", "--jobs", place / "n.csv", "--platform", place / "p.toml", "--map-every", "events")
    with pytest.raises(BatchcastError, match="ebest:reading=job left out: it looks for the latest end"):
        run(*words, "--heuristic", "ebest:reading=job,best_fit")
    doc = json.loads(run(*words, "--heuristic", "mct,ebest", "--json"))
    assert [row["heuristic"] for row in doc["results"]] == ["mct"]
    assert any("ebest left out" in warning for warning in doc["warnings"])
