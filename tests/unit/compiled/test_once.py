"""Tests that only one of the processes that need a kernel compiles it."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from batchcast.compiled.once import LEFT, CompilerLine

CODE = """
import sys
from batchcast.predict.hazard.history_features import level_of
print("ready", flush=True)
sys.stdin.readline()
level_of(5.0, 31)
print(sum(level_of.stats.cache_misses.values()), sum(level_of.stats.cache_hits.values()), flush=True)
"""


@pytest.mark.long
def test_of_two_that_want_it_at_once_one_compiles_and_the_other_reads(tmp_path: Path) -> None:
    there = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"} | {"XDG_CACHE_HOME": str(tmp_path)}
    pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    both = [subprocess.Popen([sys.executable, "-c", CODE], env=there, text=True, **pipe) for _ in range(2)]
    for one in both:
        assert one.stdout.readline() == "ready\n"
    for one in both:
        one.stdin.write("go\n")
        one.stdin.flush()
    ends = [one.communicate() for one in both]
    assert [words for _, words in ends] == ["", ""]
    assert sorted(counts.split() for counts, _ in ends) == [["0", "1"], ["1", "0"]]


@pytest.mark.parametrize("terminal", [True, False])
def test_who_waits_is_told_on_a_terminal_for_as_long_as_it_lasts(
    terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(shown, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stderr", shown)
    with CompilerLine().waiting("schedule.advance.go_on"):
        assert ("another process compiles schedule.advance.go_on" in shown.getvalue()) == terminal
    assert shown.getvalue().endswith(LEFT if terminal else "")
    assert bool(shown.getvalue()) == terminal


ALLOCATES_BELOW = """
import numpy as np
from batchcast.compiled import allocating, kernel

@allocating
def turned(values):
    other = np.empty(len(values))
    for k in range(len(values)):
        other[k] = values[-1 - k]
    return other[0]

@kernel
def last(values):
    return turned(values)
"""


def test_what_allocates_only_in_what_it_calls_is_read_from_disk(tmp_path: Path) -> None:
    (tmp_path / "below.py").write_text(ALLOCATES_BELOW)
    code = (
        "import sys, numpy as np; from below import last; print(last(np.array([1.0, 5.0])), "
        "sum(last.stats.cache_hits.values()), 'numba.typed.typeddict' in sys.modules)"
    )
    told = []
    for _ in range(2):
        told.append(subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True,
                                   env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)}, check=False).stdout)  # fmt: skip
    assert told == ["5.0 0 True\n", "5.0 1 False\n"]
