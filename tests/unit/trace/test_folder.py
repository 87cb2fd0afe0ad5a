"""Tests a log as a folder by month: it is read back as the same log in any job order, and no partial folder remains."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from batchcast import Trace
from batchcast.errors import InputError, UsageError
from batchcast.table import LogInfo, Nominal
from batchcast.trace import demo_path, parquet, read_trace, source, write_trace
from batchcast.trace.parquet import write_folder
from batchcast.trace.read import read_pieces
from batchcast.trace.synth import Recipe, make_log

pytest.importorskip("pyarrow")
DAY = 86400.0


def assert_same(one: Trace, other: Trace) -> None:
    assert set(one.names) == set(other.names)
    for name in one.names:
        a, b = one.column(name), other.column(name)
        if isinstance(a, Nominal):
            assert isinstance(b, Nominal)
            assert a.categories == b.categories, name
            assert np.array_equal(a.codes, b.codes), name
        else:
            assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), name


def swf(path: Path, log: Trace, order: np.ndarray) -> Path:
    """Return the log with its lines in another order."""
    write_trace(log, path)
    header = [line for line in path.read_text().splitlines() if line.startswith(";")]
    jobs = [line for line in path.read_text().splitlines() if not line.startswith(";")]
    path.write_text("\n".join([*header, *(jobs[k] for k in order)]) + "\n")
    return path


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read one page at a time, so that a few thousand jobs arrive in many pieces."""
    monkeypatch.setattr(source, "BLOCK", 1 << 14)


@pytest.fixture(scope="module")
def months(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log that spans several months."""
    path = tmp_path_factory.mktemp("log") / "months.swf.gz"
    write_trace(make_log(np.random.default_rng(2), Recipe(jobs=3000, procs=4, load=0.4, waits="none")), path)
    return path


def test_a_log_comes_back_with_its_provenance(months: Path, tmp_path: Path) -> None:
    written = write_folder(read_pieces(months, jobs=700), tmp_path / "log")
    demo, again = read_trace(months), read_trace(tmp_path / "log")
    assert_same(again, demo)
    assert len(written) == len(demo)
    assert len(written.parts) > 3
    for name in ("max_procs", "unix_start", "timezone", "names", "header", "sha256", "dropped", "notes", "memory_per"):
        assert getattr(again.info, name) == getattr(demo.info, name), name
    found = sorted(path.parent.name for path in (tmp_path / "log").glob("month=*/*.parquet"))
    assert found == [part.path.split("/")[0] for part in written.parts]
    assert written.largest_request == np.nanmax(demo.req_time)


def test_jobs_in_any_order_and_months_of_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "JOBS_IN_MEMORY", 150)
    demo = read_trace(demo_path())
    mixed = np.random.default_rng(5).permutation(len(demo))
    for name, order in (("sorted", np.arange(len(demo))), ("mixed", mixed)):
        path = swf(tmp_path / f"{name}.swf", demo, order)
        written = write_folder(read_pieces(path, jobs=400), tmp_path / name)
        assert_same(written.to_trace(), read_trace(path))
        times = [part[edge] for part in written.parts for edge in (2, 3)]
        assert times == sorted(times)
        assert all(a < b for a, b in zip(times[1::2], times[2::2]))
        assert len(written.parts) > 3 or name == "mixed"
        assert written.info.notes == read_trace(path).info.notes


def test_names_are_coded_alike_in_every_period(tmp_path: Path) -> None:
    first = Trace.from_arrays({"submit_time": [0.0, 5.0], "user_id": ["eve", None], "tag": [3, 4]})
    second = Trace.from_arrays({"job_id": [3, 4], "submit_time": [40 * DAY, 41 * DAY], "user_id": ["ada", "eve"],
                                "req_time": [60.0, None]})  # fmt: skip
    early, late = write_folder([first, second], tmp_path / "log").periods()
    assert early.nominal("user_id").categories == late.nominal("user_id").categories == ("ada", "eve")
    assert late.nominal("user_id").codes.tolist() == [0, 1]
    whole = read_trace(tmp_path / "log")
    assert whole["user_id"].tolist() == ["eve", None, "ada", "eve"]
    assert np.isnan(whole.req_time[[0, 1, 3]]).all()
    assert np.isnan(whole.number("tag")[2:]).all()


def test_what_is_broken_off_leaves_nothing(tmp_path: Path) -> None:
    place = tmp_path / "log"

    def broken() -> Iterator[Trace]:
        yield Trace.from_arrays({"submit_time": [0.0, 90 * DAY]})
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_folder(broken(), place)
    assert not list(tmp_path.iterdir())
    assert len(write_folder([Trace.from_arrays({"submit_time": [0.0, 90 * DAY]})], place)) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_other_peoples_files_and_damage_are_told(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="exists already"):
        write_folder([Trace.from_arrays({"submit_time": [1.0]})], tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.tex").exists()
    write_folder([Trace.from_arrays({"submit_time": [1.0]}, LogInfo(max_procs=4))], tmp_path / "log")
    about = json.loads((tmp_path / "log" / "_log.json").read_text())
    (tmp_path / "log" / "_log.json").write_text(json.dumps({**about, "version": 99}))
    with pytest.raises(InputError, match="newer batchcast"):
        read_trace(tmp_path / "log")
    (tmp_path / "log" / "_log.json").write_text("{")
    with pytest.raises(InputError, match="damaged"):
        read_trace(tmp_path / "log")
