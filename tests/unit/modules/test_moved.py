"""Old names of modules work for one version, with a warning that names the new place."""

from __future__ import annotations

import subprocess
import sys

import pytest

from batchcast.moved import MOVED

OLD = {  # what a script imported
    "results.accuracy": "evaluate_run_times",
    "results.limits": "memory_limits",
    "sweep.plans": "read_sweep",
    "trace.synth.cluster": "synthesize_on",
}


@pytest.mark.parametrize(("module", "name"), OLD.items())
def test_an_old_name_works_and_says_where_it_is_now(module: str, name: str) -> None:
    code = f"from batchcast.{module} import {name}; import batchcast.{MOVED[module]} as new; "
    code += f"assert {name} is new.{name}"
    command = [sys.executable, "-W", "always::DeprecationWarning", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"batchcast.{module} is batchcast.{MOVED[module]} now" in done.stderr


@pytest.mark.parametrize("new", sorted(set(MOVED.values())))
def test_every_new_place_is_there(new: str) -> None:
    __import__(f"batchcast.{new}")


def test_what_was_never_there_is_still_missing() -> None:
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        __import__("batchcast.nowhere")
