"""Tests verbs from entry points: help lists them without importing them, and a call imports and runs them."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from batchcast.cli.main import summary


def test_help_lists_grid_and_vasp_without_importing_them() -> None:
    code = (
        "import sys; sys.argv = ['batchcast', 'help']\n"
        "from batchcast.cli.main import entry\n"
        "try:\n    entry()\nexcept SystemExit:\n    pass\n"
        "verbs = ('batchcast.broker.verb', 'batchcast.inputs.verb')\n"
        "sys.exit(','.join(m for m in verbs if m in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Map jobs onto the resources of a grid" in done.stdout
    assert "VASP jobs" in done.stdout


def test_the_summary_of_a_foreign_verb_is_read_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "foreign_verbs"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (package / "burn.py").write_text('"""`batchcast burn`: warm the room."""\nraise RuntimeError("imported")\n')
    monkeypatch.syspath_prepend(tmp_path)
    point = EntryPoint("burn", "foreign_verbs.burn:command", "batchcast.commands")
    assert summary(point) == "Warm the room."
    assert summary(EntryPoint("gone", "no_such_package.verb:command", "batchcast.commands")) == "no_such_package.verb"
