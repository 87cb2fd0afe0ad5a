"""Figures that were worked out in seconds as figures of memory: what is named by its unit is named by the true one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def in_mebibytes(row: Mapping[str, Any], per: str) -> dict[str, Any]:
    """A row of `metrics.accuracy` about memory: `mae_s` is `mae_mib`, and so on; `per` says of what.

    >>> in_mebibytes({"predictor": "kernel", "mae_s": 3.0, "apa": 0.9}, "node")
    {'predictor': 'kernel', 'per': 'node', 'mae_mib': 3.0, 'apa': 0.9}
    """
    first, *rest = ((key.removesuffix("_s") + "_mib" if key.endswith("_s") else key, row[key]) for key in row)
    return dict([first, ("per", per), *rest])
