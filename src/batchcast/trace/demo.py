# SPDX-License-Identifier: Apache-2.0
"""The synthetic log that comes with batchcast: `demo_path` and `batchcast demo` use this log."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def demo_path() -> Path:
    """Return the path of the demo log: SWF, 5,000 synthetic jobs on 256 processors.

    Examples
    --------
    >>> demo_path().name
    'demo.swf.gz'
    """
    return Path(str(files("batchcast") / "data" / "demo.swf.gz"))
