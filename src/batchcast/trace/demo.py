# SPDX-License-Identifier: Apache-2.0
"""The synthetic log that comes with batchcast: `demo_path` and `batchcast demo` use it.

`python -m batchcast.trace.demo FILE.swf.gz` generates it again.
"""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

import numpy as np

from ..table import Trace
from .synth import Site, synthesize
from .write import write_by_ending

SEED = 55
SITE = Site()


def demo_path() -> Path:
    """Return the path of the demo log: SWF, 5,000 synthetic jobs on 256 processors.

    Examples
    --------
    >>> demo_path().name
    'demo.swf.gz'
    """
    return Path(str(files("batchcast") / "data" / "demo.swf.gz"))


def demo_workload() -> Trace:
    """Generate the demo log again from its seed."""
    return synthesize(np.random.default_rng(SEED), SITE)


if __name__ == "__main__":
    write_by_ending(demo_workload(), sys.argv[1])
