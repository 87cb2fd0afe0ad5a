"""numba imported without what it only asks after: half of SciPy, and a YAML reader for a file that is not there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, cast

BLAS = "scipy.linalg.cython_blas"
SETTINGS = ".numba_config.yaml"


@contextmanager
def numba_alone() -> Iterator[None]:
    """While it lasts numba finds no SciPy, and no YAML where no settings file lies; both can be imported after it.

    numba asks for SciPy's BLAS once, to choose how inner products of `np.correlate` and `np.convolve` are computed; our
    kernels have none, and `np.dot` and `np.linalg` in somebody else's kernels look for it anew. 0.1 s of start-up.
    """
    absent = [BLAS] if Path(SETTINGS).exists() else [BLAS, "yaml"]
    absent = [name for name in absent if name not in sys.modules]
    loaded = cast("dict[str, Any]", sys.modules)
    loaded |= dict.fromkeys(absent)  # None is Python's own sign for a module that must not be found
    try:
        yield
        with suppress(ImportError):
            import_module("numba.np.arraymath")  # this asks
    finally:
        for name in absent:
            sys.modules.pop(name, None)
