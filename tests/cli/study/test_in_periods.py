"""Tests a log that was converted to a folder, and the verbs that process the folder month by month."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from batchcast import Trace, simulate
from batchcast.cli.main import cli
from batchcast.errors import UsageError
from batchcast.evaluation.replay import replay
from batchcast.trace import read_trace, write_trace
from batchcast.trace.synth import Recipe, make_log

pq = pytest.importorskip("pyarrow.parquet")


def run(*words: object) -> Any:
    result = CliRunner().invoke(cli, [*map(str, words)], catch_exceptions=False, standalone_mode=False)
    return json.loads(result.stdout) if "--json" in words else result


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log that spans several months."""
    path = tmp_path_factory.mktemp("log") / "months.swf"
    write_trace(make_log(np.random.default_rng(2), Recipe(jobs=3000, procs=4, load=0.4)), path)
    return path


@pytest.fixture(scope="module")
def log(file: Path) -> Path:
    place = file.with_name("months")
    [made] = run("convert", file, "-o", f"{place}/", "--json")["results"]
    assert made["jobs"] == 3000
    assert made["periods"] > 3
    return place


@pytest.fixture(scope="module")
def demo(file: Path) -> Trace:
    return read_trace(file)


def test_every_verb_reads_the_folder_at_once(log: Path, file: Path) -> None:
    words = ("runtime", "--predictor", "last_2", "--json")
    one, other = run(*words, log)["results"][0], run(*words, file)["results"][0]
    assert {**one, "seconds": 0} == {**other, "seconds": 0}


def test_schedules(log: Path, demo: Trace, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("--policy", "easy,fcfs", "--predictor", "last_2", "--in-periods", out, "--json")
    document = run("simulate", log, *words)
    for row in document["results"]:
        whole = simulate(demo, row["policy"], "last_2")
        table = pq.read_table(out / f"policy={row['policy']}", partitioning=None).sort_by("row")
        assert np.array_equal(table["start_time"].to_numpy(), whole.start_time)
        assert np.array_equal(table["job_id"].to_numpy(), whole.job_id)
        measures = whole.measures()
        assert row["jobs"] == len(whole)
        assert row["max_wait_s"] == measures["max_wait_s"]
        assert row["mean_bounded_slowdown"] == pytest.approx(measures["mean_bounded_slowdown"], rel=1e-12)


def test_run_times_and_waits(log: Path, demo: Trace, tmp_path: Path) -> None:
    for verb, spec in (("runtime", "recent_mean:k=3"), ("wait", "recent_wait")):
        out = tmp_path / verb
        document = run(verb, log, "--predictor", spec, "--in-periods", out, "--json")
        [place] = out.iterdir()
        table = pq.read_table(place, partitioning=None).sort_by("row")
        if verb == "runtime":
            assert np.array_equal(table["point"].to_numpy(), replay(demo, spec)[spec].points)
        assert document["results"][0]["jobs"] == 3000
        assert document["settings"]["in_periods"] == str(out)


def test_a_part_of_the_log(log: Path, demo: Trace, tmp_path: Path) -> None:
    user = demo["user_id"][0]
    run("runtime", log, "--predictor", "last_2", "--user", user, "--in-periods", tmp_path / "out")
    table = pq.read_table(tmp_path / "out" / "predictor=last_2", partitioning=None)
    assert table.num_rows == int((demo["user_id"] == user).sum())


@pytest.mark.parametrize("words", [("--by", "user"), ("--first", "9"), ("--procs-total", "peak"),
                                   ("--clean", "duplicates"), ("--predictor", "actual")])  # fmt: skip
def test_what_needs_the_whole_log_is_refused_by_name(log: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=f"{words[0]}|actual"):
        run("runtime", log, *words, "--in-periods", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_places_that_do_not_fit(log: Path, file: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="convert"):
        run("runtime", file, "--in-periods", tmp_path / "out")
    (tmp_path / "there").mkdir()
    with pytest.raises(UsageError, match="exists already"):
        run("runtime", log, "--in-periods", tmp_path / "there")
