"""Tests a study on a separate Dask scheduler (`--on tcp://`) with two worker processes, one killed: identical
results."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from batchcast.errors import Unreachable
from batchcast.sweep import read_study, results, tasks_of
from batchcast.sweep.dataset import OF_A_RUN, Dataset
from batchcast.sweep.run import Pool, local, on_dask, pool_on, run
from batchcast.sweep.study import Slurm
from batchcast.trace import demo_path

distributed = pytest.importorskip("distributed")
STUDY = f"""
seed = 4
replicates = 9
policies = ["easy", "easy-sjbf"]
predictors = ["requested", "last_2"]
[[log]]
path = "{demo_path()}"
name = "demo"
first = 400
"""
Process = subprocess.Popen[bytes]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[Process]]]:
    """A scheduler's address and its two workers, each a process with one thread."""
    address = f"tcp://127.0.0.1:{free_port()}"

    def start(words: list[str]) -> Process:
        command = [sys.executable, "-m", *words, "--host", "127.0.0.1", "--no-dashboard"]
        return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    with ExitStack() as last:

        def ends(process: Process) -> Process:
            last.callback(process.wait)
            last.callback(process.kill)
            return process

        ends(start(["distributed.cli.dask_scheduler", "--port", address.rpartition(":")[2]]))
        worker = ["distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny"]
        workers = [ends(start(worker)) for _ in range(2)]
        with distributed.Client(address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
        yield address, workers


def swept(folder: Path, pool: Pool, kills: Process | None = None) -> Any:
    """Run the study on a pool; when the fourth result arrives, this process is killed."""
    tasks, dataset = tasks_of(read_study(STUDY)), Dataset(folder)
    dataset.declare(tasks, STUDY)
    landed: list[str] = []

    def keep(row: Mapping[str, Any]) -> None:
        dataset.keep(row)
        landed.append(row["key"])
        if kills is not None and len(landed) == 4:
            kills.kill()
            kills.wait()

    failed = run(tasks, pool, keep)
    assert failed == []
    assert len(landed) == len(set(landed)) == len(tasks) == 40
    return results(folder).drop(OF_A_RUN)


@pytest.mark.long
def test_a_scheduler_of_ones_own_gives_what_this_machine_gives_though_a_worker_is_killed(
    cluster: tuple[str, list[Process]], tmp_path: Path
) -> None:
    address, workers = cluster
    with pool_on(address, 2, Slurm(), lambda line: None, tmp_path) as pool:
        far = swept(tmp_path / "far", pool, kills=workers[0])
    assert workers[0].returncode == -9
    assert workers[1].poll() is None
    with local(2) as pool:
        near = swept(tmp_path / "near", pool)
    assert near.equals(far)


def test_no_scheduler_is_said_with_its_address() -> None:
    address = f"tcp://127.0.0.1:{free_port()}"
    with pytest.raises(Unreachable, match=address), on_dask(address, lambda line: None, timeout_s=0.5):
        pass
