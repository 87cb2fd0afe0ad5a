"""Tests that the examples on the page of plug-ins run, pass the conformance suite, and cover every entry point."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from click.testing import CliRunner
from tests.conftest import ROOT

import batchcast
from batchcast import testing
from batchcast.cli.main import GROUP
from batchcast.papers.grid.model import Batch
from batchcast.papers.grid.testing import check_heuristic
from batchcast.predict.registry import GROUPS

PAGE = (ROOT / "docs" / "reference" / "plug-ins.md").read_text(encoding="utf-8")


BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
LOG = batchcast.Trace.from_arrays(
    {"submit_time": [0, 10, 400], "wait_time": [5, 30, 7], "run_time": [100, 200, 300], "req_time": [900] * 3,
     "req_procs": [1, 2, 3], "user_id": ["a", "a", "a"]}
)  # fmt: skip


@pytest.fixture
def examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the classes and functions of the page as one importable module, as a reader would write it."""
    (tmp_path / "plug_ins_of_the_page.py").write_text("\n".join(BLOCKS[:-1]), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "plug_ins_of_the_page", raising=False)
    return importlib.import_module("plug_ins_of_the_page")


def test_the_examples_run(examples: ModuleType) -> None:
    runs = batchcast.replay(LOG, {"last_plus": examples.LastPlus()})["last_plus"]
    assert runs.points.tolist() == pytest.approx([3600.0, 3600.0, 220.0])
    assert "LastWait" in repr(batchcast.evaluate_waits(LOG, examples.LastWait))
    plan = examples.Fastest().assign(Batch.of_times(np.array([[3.0, 1.0], [np.inf, np.inf]])))
    assert (plan.order.tolist(), plan.resource.tolist()) == ([0], [1, -1])
    assert batchcast.simulate(LOG, examples.ShortestFirst, total=4).start_time.tolist() == [0.0, 10.0, 400.0]
    assert CliRunner().invoke(examples.command, ["world"]).output == "hello world\n"


@pytest.mark.long
def test_the_examples_pass_the_conformance_suite(examples: ModuleType) -> None:
    exec(BLOCKS[-1], vars(examples))
    assert check_heuristic(examples.Fastest)
    assert testing.check_order(examples.narrow_first)


def test_the_page_names_every_entry_point() -> None:
    assert set(re.findall(r"^\| `(batchcast\.\w+)` \|", PAGE, flags=re.MULTILINE)) == {*GROUPS.values(), GROUP}
