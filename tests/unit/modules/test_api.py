"""Tests the Python API that a notebook or a script imports."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import batchcast
from batchcast.simulation.policy import Policy
from batchcast.simulation.simulate import simulate

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_importing_batchcast_loads_nothing_heavy():
    code = "import sys, batchcast; print(sorted({'numpy', 'numba', 'click', 'pyarrow'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_reading_the_demo_log_loads_no_compiler():
    code = (
        "import sys, batchcast; batchcast.read_trace(batchcast.demo_path())\n"
        "print(sorted({'numba', 'pyarrow', 'rich', 'importlib.metadata'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


@pytest.mark.long
@pytest.mark.parametrize(
    ("verb", "most", "without"),
    [
        (["info"], 54, "numba scipy jinja2 importlib.metadata multiprocessing.context"),
        (["simulate"], 122, "scipy jinja2 numba.typed.typeddict batchcast.simulation.on_nodes"),
        (["runtime", "--predictor", "kernel"], 95, "scipy jinja2 numba.typed.typeddict batchcast.simulation"),
    ],
)
def test_a_verb_loads_only_what_it_needs(verb, most, without):
    code = (
        "import sys; from batchcast.cli.main import entry\n"
        "try:\n    entry()\nexcept SystemExit:\n    pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, verb[0], str(batchcast.demo_path()), *verb[1:]]
    for _ in range(2):  # the first call compiles kernels if no earlier run has
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = done.stderr.splitlines()[-1].split()
    assert not set(without.split()) & set(loaded)
    assert len([name for name in loaded if name.startswith("batchcast")]) <= most


def test_everything_promised_is_there():
    for name in batchcast._ADDRESSES:
        assert getattr(batchcast, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'magic'"):
        _ = batchcast.magic


def test_rooms_are_callable_whatever_was_imported_before():
    log = batchcast.Trace.from_arrays(
        {"submit_time": [0, 0], "run_time": [9, 9], "req_time": [9, 9], "req_procs": [2, 2]}
    )
    assert batchcast.simulate(log, Policy(), total=2).start_time.tolist() == [0.0, 9.0]
    assert batchcast.simulate is simulate
    assert batchcast.evaluate(log, predictor=["requested"]).why_not  # the machine's size is unknown


def test_arrow_in_and_out():
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(
        {"submit_time": [5.0, 0.0], "run_time": [1.0, None], "user_id": ["ada", None], "vasp": [1, 2]}
    )
    log = batchcast.from_arrow(table)
    again = batchcast.from_arrow(batchcast.to_arrow(log))
    assert again.names == log.names
    assert np.array_equal(again.run_time, [np.nan, 1.0], equal_nan=True)
    assert again.nominal("user_id").decode() == [None, "ada"]


def test_schedules_and_forecasts_leave_as_arrays_and_arrow():
    pytest.importorskip("pyarrow")
    log = batchcast.Trace.from_arrays(
        {"submit_time": [0, 0], "run_time": [9, 9], "req_time": [9, 9], "req_procs": [2, 2], "wait_time": [0, 9]}
    )
    schedule = batchcast.simulate(log, total=2)
    assert list(schedule.columns()) == [
        *("job_id", "submit_time", "start_time", "end_time", "procs", "planned_run_time", "backfilled", "row")
    ]
    assert batchcast.to_arrow(schedule)["start_time"].to_pylist() == [0.0, 9.0]
    said = batchcast.replay(log, ["requested"])["requested"]
    assert batchcast.to_arrow(said).to_pydict() == {"point": [9.0, 9.0], "basis": list(said.basis)}


class Answer:
    """Predicts 5 seconds for every job."""

    def predict(self, job, at):
        return batchcast.Prediction(5.0)

    def observe(self, event, at):
        pass


def test_methods_of_ones_own_run_beside_ours():
    log = batchcast.Trace.from_arrays(
        {"submit_time": [0, 0, 1], "run_time": [9, 9, 4], "req_time": [9, 9, 9], "req_procs": [2, 2, 1]}
    )
    assert batchcast.replay(log, {"it": Answer()})["it"].points.tolist() == [5.0, 5.0, 5.0]
    sized = batchcast.from_arrow(batchcast.to_arrow(log.with_info(replace(log.info, max_procs=2.0))))
    found = batchcast.evaluate(
        sized,
        predictor={"it": lambda trace: Answer(), "last_2": None},
        policy={"mine": batchcast.Policy(order=lambda now, submit, procs, planned, wait: procs), "easy": None},
    )
    rows = [(row["policy"], row["predictor"]) for row in found.schedule_rows()]
    assert rows == [(p, s) for p in ("mine", "easy") for s in ("requested", "it", "last_2", "actual")]
    assert next(row for row in found.accuracy_rows() if row["predictor"] == "it")["mae_s"] == pytest.approx(3.0)


@pytest.mark.parametrize("name", ["check_order", "check_predictor", "check_wait_predictor"])
def test_every_check_is_public_and_shows_how(name):
    assert ">>>" in getattr(batchcast.testing, name).__doc__


def test_every_public_name_has_an_example_that_runs():
    for name in batchcast._ADDRESSES:
        assert ">>>" in getattr(batchcast, name).__doc__, name


@pytest.mark.parametrize("name", ["my_predictor", "my_order"])
def test_an_example_is_short_and_runs(name, capsys):
    path = EXAMPLES / f"{name}.py"
    assert len(path.read_text().splitlines()) <= 25
    runpy.run_path(str(path), run_name="__main__")
    waits = [float(line.split()[0]) for line in capsys.readouterr().out.splitlines()[1:]]
    assert len(waits) >= 2
    assert min(waits[1:]) < waits[0]


def demo_evaluation() -> Any:
    log = batchcast.read_trace(batchcast.demo_path())[:400]
    return batchcast.evaluate(log, predictor="last_2", policy="easy")


def test_one_name_is_enough_and_a_notebook_shows_the_tables():
    evaluation = demo_evaluation()
    assert [row["predictor"] for row in evaluation.schedule_rows()] == ["requested", "last_2", "actual"]
    assert evaluation._repr_html_().count("<table>") == 2
    schedule = evaluation.outcomes[0].schedule
    assert "mean_wait_s" in schedule._repr_html_()


def test_results_become_data_frames_and_arrow():
    pytest.importorskip("pandas")
    pyarrow = pytest.importorskip("pyarrow")
    evaluation = demo_evaluation()
    frame = evaluation.to_pandas()
    assert frame[frame["part"] == "schedule"]["predictor"].tolist() == ["requested", "last_2", "actual"]
    schedule = evaluation.outcomes[0].schedule
    assert schedule.to_pandas()["start_time"].tolist() == schedule.start_time.tolist()
    assert pyarrow.table(schedule)["start_time"].to_pylist() == schedule.start_time.tolist()


def test_an_evaluation_writes_the_report_of_the_command_line(tmp_path):
    page = batchcast.write_report(demo_evaluation(), tmp_path / "report")
    assert page == tmp_path / "report" / "index.html"
    kept = ["forecasts.csv", "index.html", "result.json", "schedules"]
    assert sorted(path.name for path in (tmp_path / "report").iterdir()) == kept
    document = json.loads((tmp_path / "report" / "result.json").read_text())
    assert document["schema"] == "batchcast/evaluate/1"
    assert document["settings"]["loop"] == "closed"
    assert (tmp_path / "report" / document["results"][3]["schedule_file"]).exists()


@pytest.mark.long
def test_a_scikit_learn_regressor_is_an_example_that_runs_and_beats_the_requests(capsys):
    path = EXAMPLES / "my_sklearn.py"
    assert len(path.read_text().splitlines()) <= 25
    runpy.run_path(str(path), run_name="__main__")
    wrong = {line.split()[0]: float(line.split()[3]) for line in capsys.readouterr().out.splitlines()}
    assert wrong["boosted"] < wrong["requested"] / 2
