"""The bundled demo workload: where it lies, and how it was made (`python -m batchcast.trace.demo FILE`)."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

import numpy as np

from ..table import Trace
from .synth import Site, synthesize
from .write import write_trace

SEED = 55
SITE = Site()


def demo_path() -> Path:
    """The demo workload, an SWF log of 5,000 synthetic jobs on 256 processors.

    >>> demo_path().name
    'demo.swf.gz'
    """
    return Path(str(files("batchcast") / "data" / "demo.swf.gz"))


def demo_workload() -> Trace:
    """The same workload, generated anew from its seed."""
    return synthesize(np.random.default_rng(SEED), SITE)


if __name__ == "__main__":
    write_trace(demo_workload(), sys.argv[1])
