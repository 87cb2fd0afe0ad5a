"""The project's own compiler passes run only on tested versions of numba; other versions compile the same kernels."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import numba
import pytest
from tests.unit.compiled.kinds import results

from batchcast.compiled.versions import TESTED, own_passes


def test_the_pinned_numba_is_one_that_was_tried() -> None:
    assert tuple(map(int, numba.__version__.split(".")[:2])) in TESTED
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert own_passes(numba.__version__, "")


@pytest.mark.parametrize("version", ["0.61.2", "1.0", "0.70.0rc1"])
def test_a_numba_that_was_never_tried_is_said_once_and_runs_public(version: str) -> None:
    with pytest.warns(RuntimeWarning, match=f"numba {version} was never tested") as told:
        assert not own_passes(version, "")
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not own_passes(version, "public")


@pytest.mark.long
def test_every_kind_of_kernel_gives_the_same_by_public_decorators() -> None:
    code = "from batchcast.compiled import versions; from tests.unit.compiled.kinds import results; "
    code += "print(versions.OWN_PASSES, results())"
    environment = {**os.environ, "BATCHCAST_NUMBA": "public"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"False {results()}\n"
    assert done.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("--scheduler", "slurm", "--first", "300"),
        (
            *("--first", "500", "--procs-total", "640"),
            *("--policy", "easy,conservative,forecast", "--predictor", "requested,last_2,kernel"),
        ),
    ],
)
def test_schedules_are_the_same_by_public_decorators(words: tuple[str, ...]) -> None:
    from tests.cluster import cluster_path

    told = []
    for mode in ("", "public"):
        command = [sys.executable, "-m", "batchcast", "simulate", str(cluster_path()), *words, "--json"]
        environment = {**os.environ, "BATCHCAST_NUMBA": mode}
        lines = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
        told.append([line for line in lines if '_s": ' not in line and '"seconds"' not in line])
    assert told[0] == told[1]
