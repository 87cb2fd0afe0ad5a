"""Tests that every public result, also a future one, can be drawn, converted to a frame, and shown in a notebook."""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from tools.rooms import ROOT, modules

import batchcast
from batchcast.errors import UsageError
from batchcast.machines.machine import homogeneous
from batchcast.results.whatif import Variants, growth, outage
from batchcast.simulation.outage import Outage
from batchcast.sweep.compare import SweepPlans
from batchcast.table.result import Result

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib draws these")
N = 400
PLAIN = {"write_report": "Path", "demo_path": "str | Path", "to_arrow": "Any"}
"""Public functions that return no result, with what they return instead."""


def log() -> batchcast.Trace:
    rng = np.random.default_rng(5)
    run = np.round(60.0 + 600.0 * rng.random(N))
    return batchcast.Trace.from_arrays(
        {
            "submit_time": np.cumsum(np.round(400.0 * rng.random(N) * (np.arange(N) % 40 > 3))),
            "wait_time": np.round(500.0 * rng.random(N)),
            "run_time": run,
            "req_time": run * 3,
            "req_procs": 1 + np.arange(N) % 4,
            "user_id": [f"u{k}" for k in rng.integers(0, 25, N)],
            "queue_id": ["long", "short"] * (N // 2),
            "req_mem_kib": np.full(N, 2.0**20),
            "used_mem_kib": 2.0**17 * (1 + rng.random(N)),
        }
    ).with_info(batchcast.Trace.from_arrays({"submit_time": [0.0]}).info.__class__(max_procs=8.0))


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """One result of each kind, by the name of its class."""
    jobs = log()
    fcfs, easy = (batchcast.simulate(jobs, name, "requested") for name in ("fcfs", "easy"))
    found = batchcast.evaluate(jobs, predictor="last_2", policy="easy", scheduler="policy")
    places = [tmp_path_factory.mktemp(name) for name in ("a", "b")]
    for place in places:
        batchcast.write_report(found, place)
    said = batchcast.replay(jobs, ["requested", "kernel"])
    made = [
        jobs,
        said,
        said["kernel"],
        easy,
        found,
        batchcast.evaluate_run_times(jobs, "requested,last_2", by="queue"),
        batchcast.evaluate_waits(jobs, "recent_wait,recent_wait:k=9"),
        batchcast.limits(jobs, by="queue"),
        batchcast.whatif(jobs, homogeneous(2, 4, 4000.0), ["nodes=+50%"]),
        growth(jobs, Variants.of(homogeneous(2, 4, 4000.0), ["nodes=+50%"]), 0.2, replicates=2),
        outage(jobs, homogeneous(2, 4, 4000.0), Outage("ALL", float(jobs.submit_time[100]), 3600.0, 2 * 86400.0)),
        batchcast.compare(fcfs, easy, log=jobs),
        batchcast.compare(*places),
        batchcast.read_report(places[0]),
        _plans(tmp_path_factory.mktemp("study")),
    ]
    return {type(one).__name__: one for one in made}


def _plans(folder: Path) -> SweepPlans:
    from click.testing import CliRunner

    from batchcast.cli.main import cli

    jobs = batchcast.demo_path()
    (folder / "study.toml").write_text(
        f'policies = ["fcfs", "easy"]\npredictors = ["requested"]\n[[log]]\npath = "{jobs}"\nname = "demo"\n'
    )
    done = CliRunner().invoke(cli, ["sweep", str(folder / "study.toml"), "-o", str(folder / "out"), "--workers", "1"])
    assert done.exit_code == 0, done.output
    return batchcast.read_sweep(folder / "out")


def kinds() -> set[str]:
    """Return the result classes of the package."""
    bases: dict[str, set[str]] = {}
    for module in modules(ROOT / "src" / "batchcast").values():
        for name, given in re.findall(r"^\s*class (\w+)\(([^)]*)\):", module.path.read_text(), re.MULTILINE):
            bases.setdefault(name, set()).update(base.strip().partition("[")[0] for base in given.split(","))
    found, more = {"Result", "Rows"}, True
    while more:
        new = {name for name, mine in bases.items() if mine & found} - found
        found, more = found | new, bool(new)
    return found - {"Result", "Rows"}


@pytest.mark.long
def test_no_kind_of_result_goes_untried(examples: dict[str, Result]) -> None:
    assert kinds() == set(examples)


def test_every_public_function_returns_a_result(examples: dict[str, Result]) -> None:
    for name in batchcast._ADDRESSES:
        what = getattr(batchcast, name)
        if not inspect.isfunction(what) or name in PLAIN:
            continue
        returned = str(inspect.signature(what).return_annotation)
        assert {part.strip() for part in returned.split("|")} <= set(examples), f"{name} returns {returned}"


NAMES = sorted(kinds())


@pytest.mark.parametrize("name", NAMES)
def test_each_picture_is_drawn(examples: dict[str, Result], name: str, tmp_path: Path) -> None:
    result = examples[name]
    assert result.pictures
    for picture in result.pictures:
        options = {"begin": 0.0, "end": 4000.0} if picture == "gantt" else {}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ax = result.plot(picture, **options)
            ax.figure.savefig(tmp_path / "it.png")
        assert ax.get_lines() or ax.collections, f"{name}: {picture} is empty"
        assert ax.get_xlabel(), f"{name}: {picture} does not say what its axis is"
        beside = result.plot(picture, ax=ax, **options)
        assert beside is ax
    assert result.plot().get_xlabel() == result.plot(result.pictures[0]).get_xlabel()
    with pytest.raises(UsageError, match=f"picture: 'poster' is not.*{result.pictures[0]}"):
        result.plot("poster")


@pytest.mark.parametrize("name", NAMES)
def test_a_summary_fits_one_screen(examples: dict[str, Result], name: str) -> None:
    lines = examples[name].summary().splitlines()
    assert 2 < len(lines) <= 24, lines
    assert max(map(len, lines)) <= 100, lines


def test_a_summary_of_jobs_has_quantiles_in_the_units_of_the_columns() -> None:
    run = np.array([60.0, np.nan, 180.0])
    jobs = batchcast.Trace.from_arrays({"submit_time": [0.0, 1.0, 2.0], "run_time": run, "user_id": ["a", None, "a"]})
    cells = {line.split()[0]: line.split() for line in jobs.summary().splitlines()}
    assert cells["run_time"] == ["run_time", "2", "1", "min", "12", "s", "2", "min", "2", "min", "48", "s"]
    assert cells["user_id"] == ["user_id", "2", "1", "names"]


def test_a_summary_of_a_schedule_has_its_measures() -> None:
    schedule = batchcast.simulate(log(), "fcfs", "requested")
    cells = {line.split()[0]: line.split()[1:] for line in schedule.summary().splitlines()}
    assert cells["jobs"] == [str(len(schedule))]
    assert cells["utilization"] == [f"{100 * schedule.measures()['utilization']:.1f}", "%"]


@pytest.mark.parametrize("name", NAMES)
def test_frames_and_tables_hold_the_columns(examples: dict[str, Result], name: str) -> None:
    result = examples[name]
    columns = result.columns()
    rows = len(next(iter(columns.values())))
    for frame in (result.to_polars(), result.to_pandas()):
        assert list(frame.columns) == list(columns)
        assert len(frame) == rows > 0
    assert batchcast.to_arrow(result).num_rows == rows
    for key, values in columns.items():
        if isinstance(values, np.ndarray) and values.dtype.kind == "f":
            np.testing.assert_array_equal(result.to_polars()[key].fill_null(np.nan).to_numpy(), values)
    html = result._repr_html_()
    assert html.startswith("<table>")
    assert html.count("<table>") == html.count("</table>")
    assert "object at 0x" not in repr(result)
    assert len(repr(result)) < 300, "a notebook shows it in a line"


@pytest.mark.parametrize(
    ("module", "call"),
    [("pandas", "to_pandas"), ("polars", "to_polars"), ("matplotlib.figure", "plot")],
)
def test_what_is_not_installed_is_said_with_the_extra(
    examples: dict[str, Result], monkeypatch: pytest.MonkeyPatch, module: str, call: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    for result in examples.values():
        with pytest.raises(UsageError, match=r"needed|need ") as found:
            getattr(result, call)()
        assert "notebook" in str(found.value)


def test_memory_advice_is_drawn_too(tmp_path: Path) -> None:
    found = batchcast.memory_limits(log()[:120])
    for picture in found.pictures:
        found.plot(picture).figure.savefig(tmp_path / f"{picture}.png")
    assert found.to_polars().height == len(found.to_pandas()) == len(found.rows)
