"""Tests `runtime --trace-parameters`: one line for each training of `knn_ga`."""

import csv

from click.testing import CliRunner

from batchcast.cli.main import cli
from batchcast.testing import small_log
from batchcast.trace.write import write_trace


def test_a_line_a_training_and_a_mark_for_what_the_log_lacks(tmp_path):
    log, target = tmp_path / "log.swf", tmp_path / "found.csv"
    write_trace(small_log(120), log)
    spec = "knn_ga:h=40,t1=20,t2=20,generations=2,population=4"
    done = CliRunner().invoke(
        cli, ["runtime", str(log), "--predictor", f"last_2,{spec}", "--trace-parameters", str(target), "--json"]
    )
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader(target.open()))
    assert [row["first_job"] for row in rows] == ["60", "80", "100"]
    assert all(row["predictor"] == spec and float(row["beta"]) <= 2 for row in rows)
