# SPDX-License-Identifier: Apache-2.0
"""Checks the numba version. batchcast's own compiler passes are used only with versions that CI has tested.

On other versions, or with BATCHCAST_NUMBA=public, kernels are compiled by numba's public decorators. The results are
the same, but the first use takes longer. The module imports numba without optional packages that batchcast does not
need.
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

TESTED = ((0, 68),)  # the version in constraints.txt, with which .ci/run passed; add a version after a full CI run


@contextmanager
def numba_alone() -> Iterator[None]:
    """A context in which numba finds neither SciPy nor YAML.

    Importing SciPy takes a quarter of a second. If numba found YAML, it would read `.numba_config.yaml` in the working
    directory. The configuration file may belong to another user and could name another cache of kernels, whose code
    would be executed.
    """
    hidden = {name: sys.modules.get(name) for name in ("scipy", "yaml") if name == "yaml" or name not in sys.modules}
    loaded = cast("dict[str, Any]", sys.modules)
    loaded |= dict.fromkeys(hidden)  # None in sys.modules makes the import of a module fail
    try:
        yield
    finally:
        for name, module in hidden.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


@cache
def declare() -> None:
    """Import numba's declarations of NumPy before the first compilation, once per process.

    numba looks for SciPy's BLAS once, for `np.correlate` and `np.convolve`, which batchcast's kernels do not use.
    `np.dot` and `np.linalg` in users' kernels look for SciPy's BLAS again. Hiding SciPy saves 0.1 s.
    """
    with numba_alone(), suppress(ImportError):
        import_module("numba.np.arraymath")


def own_passes(version: str, wish: str) -> bool:
    """Whether batchcast's own passes can run on a version of numba; warns once about an untested version.

    >>> own_passes("0.68.1", ""), own_passes("0.68.1", "public")
    (True, False)
    """
    if wish == "public":
        return False
    known = tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) in TESTED
    if not known:
        tried = ", ".join(".".join(map(str, each)) for each in TESTED)
        warnings.warn(
            f"numba {version} was never tested with batchcast (tested: {tried}): kernels are compiled by numba's own "
            "passes, with the same results and a longer first use; set BATCHCAST_NUMBA=public to hide this warning",
            RuntimeWarning,
            stacklevel=2,
        )
    return known


with numba_alone():
    import numba

OWN_PASSES = own_passes(numba.__version__, os.environ.get("BATCHCAST_NUMBA", ""))
