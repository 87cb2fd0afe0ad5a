"""Tests that the examples on the page of plug-ins run, pass the conformance suite, and cover every entry point."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import ROOT

import batchcast
from batchcast import testing
from batchcast.broker.model import Batch
from batchcast.broker.testing import check_heuristic
from batchcast.cli.grammar import GROUP
from batchcast.cli.main import cli
from batchcast.plug_ins import GROUPS

PAGE = (ROOT / "docs" / "reference" / "plug-ins.md").read_text(encoding="utf-8")


BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
LOG = batchcast.Trace.from_arrays(
    {"submit_time": [0, 10, 400], "wait_time": [5, 30, 7], "run_time": [100, 200, 300], "req_time": [900] * 3,
     "req_procs": [1, 2, 3], "user_id": ["a", "a", "a"]}
)  # fmt: skip


@pytest.fixture
def examples(install_reader: Callable[[str, str, str], None]) -> ModuleType:
    """Return the classes and functions of the page as one importable module, as a reader would write it."""
    install_reader("bhist", "plug_ins_of_the_page:Bhist", "\n".join(BLOCKS[:-1]))
    return importlib.import_module("plug_ins_of_the_page")


BHIST = """\
Job <1001>, Job Name <relax>, User <ada>, Project <chem>, Command <./vasp>
Mon Nov 20 12:00:00 2023: Submitted from host <login1>, to Queue <normal>, CWD <$H
                     OME>, 16 Task(s);

 RUNLIMIT
 60.0 min of node1
Mon Nov 20 12:05:00 2023: Dispatched 16 Task(s) on Host(s) <node1>, Allocated 16 Slot(s);
Mon Nov 20 12:35:00 2023: Done successfully. The CPU time used is 480.0 seconds;
------------------------------------------------------------------------------
Job <1002[3]>, User <bob>, Project <default>, Command <sleep 9999>
Mon Nov 20 12:01:00 2023: Submitted from host <login1>, to Queue <short>, CWD <$HOME>;

 RUNLIMIT
 1.0 min of node1
Mon Nov 20 12:01:10 2023: Dispatched 1 Task(s) on Host(s) <node1>, Allocated 1 Slot(s);
Mon Nov 20 12:02:20 2023: Exited with exit code 140. The CPU time used is 0.1 seconds;
Mon Nov 20 12:02:20 2023: Completed <exit>; TERM_RUNLIMIT: job killed after reaching LSF run time limit.
"""


def test_the_reader_of_the_page_is_a_format_like_any_other(examples: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(BHIST)
    for log in (batchcast.read_trace(path), batchcast.read_trace(path, format="bhist", timezone="UTC")):
        assert log.info.format == "bhist"
        assert log.job_id.tolist() == ["1001", "1002[3]"]
        assert log.wait_time.tolist() == [300.0, 10.0]
        assert log.run_time.tolist() == [1800.0, 70.0]
        assert log.req_time.tolist() == [3600.0, 60.0]
        assert log.procs().tolist() == [16.0, 1.0]
        assert log.nominal("status").decode() == ["completed", "timeout"]
        assert log.nominal("queue_id").decode() == ["normal", "short"]
    shifted = batchcast.read_trace(path, timezone="+01:00")
    assert shifted.submit_time[0] == log.submit_time[0] - 3600.0
    shown = CliRunner().invoke(cli, ["info", str(path), "--json"])
    assert json.loads(shown.output)["log"]["format"] == "bhist"
    done = CliRunner().invoke(cli, ["convert", str(path), "-o", str(tmp_path / "jobs.csv")])
    assert done.exit_code == 0, done.output
    assert len(batchcast.read_trace(tmp_path / "jobs.csv")) == 2


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
