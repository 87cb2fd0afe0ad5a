# SPDX-License-Identifier: Apache-2.0
"""The numba version: our own compiler passes run only on the versions that CI has tested.

On any other version, or with BATCHCAST_NUMBA=public, numba's public decorators compile kernels: the same results,
a longer first use. numba is imported here, without what it only asks after.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from typing import Any, cast

TESTED = ((0, 68),)  # what constraints.txt pins and .ci/run has run; a new one is added with a whole run of CI


@contextmanager
def numba_alone() -> Iterator[None]:
    """While it lasts numba finds no SciPy and no YAML; both are found again after it.

    SciPy takes a quarter of a second to import. By YAML numba would read `.numba_config.yaml` in the working directory,
    a file of whoever made that directory, which may name another cache of kernels: what lies there is run.
    """
    hidden = {name: sys.modules.get(name) for name in ("scipy", "yaml") if name == "yaml" or name not in sys.modules}
    loaded = cast("dict[str, Any]", sys.modules)
    loaded |= dict.fromkeys(hidden)  # None is Python's own sign for a module that must not be found
    try:
        yield
    finally:
        for name, module in hidden.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


@cache
def declare() -> None:
    """Bring in what numba declares of numpy, before anything is compiled; once a process.

    It asks for SciPy's BLAS once, to choose how inner products of `np.correlate` and `np.convolve` are computed; our
    kernels have none, and `np.dot` and `np.linalg` in somebody else's kernels look for it anew. 0.1 s less.
    """
    with numba_alone(), suppress(ImportError):
        import_module("numba.np.arraymath")


def own_passes(version: str, wish: str) -> bool:
    """Whether the project's own passes may run on this version of numba; a version never tried is said once.

    >>> own_passes("0.68.1", ""), own_passes("0.68.1", "public")
    (True, False)
    """
    if wish == "public":
        return False
    known = tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) in TESTED
    if not known:
        tried = ", ".join(".".join(map(str, each)) for each in TESTED)
        warnings.warn(
            f"numba {version} was never tried with batchcast (numba {tried} was): kernels are compiled by numba's own "
            "passes, with the same results and a longer first use; BATCHCAST_NUMBA=public says that this is known",
            RuntimeWarning,
            stacklevel=2,
        )
    return known


with numba_alone():
    import numba

OWN_PASSES = own_passes(numba.__version__, os.environ.get("BATCHCAST_NUMBA", ""))
