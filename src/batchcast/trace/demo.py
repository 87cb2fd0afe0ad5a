# SPDX-License-Identifier: Apache-2.0
"""The bundled logs, where they lie and how they were made: a small pool (`demo_path`) and a cluster (`cluster_path`).

`python -m batchcast.trace.demo FILE.swf.gz` writes the first anew, `FILE.csv` the second.
"""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

import numpy as np

from ..cluster.machine import Machine
from ..table import Trace
from .slurm_record import open_machine
from .synth import Site, synthesize
from .synth.cluster import Crowd, synthesize_on
from .write import write_by_ending

SEED = 55
SITE = Site()
CROWD = Crowd()


def demo_path() -> Path:
    """The demo workload, an SWF log of 5,000 synthetic jobs on 256 processors.

    >>> demo_path().name
    'demo.swf.gz'
    """
    return Path(str(files("batchcast") / "data" / "demo.swf.gz"))


def demo_workload() -> Trace:
    """The same workload, generated anew from its seed."""
    return synthesize(np.random.default_rng(SEED), SITE)


def cluster_path() -> Path:
    """The log of `batchcast demo`: CSV, its waits by Slurm's loops on `cluster_machine()`.

    >>> cluster_path().name
    'cluster.csv.gz'
    """
    return demo_path().with_name("cluster.csv.gz")


def cluster_machine() -> Machine:
    """The machine of that log: 10 nodes with memory, 2 of them with GPUs, two partitions, caps by user.

    >>> cluster_machine().cpus, [part.name for part in cluster_machine().partitions]
    (640, ['batch', 'gpu'])
    """
    return open_machine(str(demo_path().with_name("cluster.toml")))


def cluster_workload() -> Trace:
    """The same log, generated anew from its seed."""
    return synthesize_on(np.random.default_rng(SEED), cluster_machine(), CROWD)


if __name__ == "__main__":
    write_by_ending(cluster_workload() if sys.argv[1].endswith(".csv") else demo_workload(), sys.argv[1])
