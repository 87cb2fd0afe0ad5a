# SPDX-License-Identifier: Apache-2.0
"""The entry points by which installed packages add methods, readers and heuristics to batchcast."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

GROUPS = {
    "runtime": "batchcast.runtime_predictors",
    "wait": "batchcast.wait_predictors",
    "heuristic": "batchcast.heuristics",
    "inputs": "batchcast.input_files",
    "format": "batchcast.formats",
}
"""The group of entry points of each kind."""


@cache
def installed(kind: str) -> Mapping[str, str]:
    """Return the location MODULE:NAME of every entry point of a kind (a key of `GROUPS`) by name, sorted."""
    # importing the entry points takes 25 ms, and most commands do not need them
    from importlib.metadata import entry_points

    return dict(sorted((point.name, point.value) for point in entry_points(group=GROUPS[kind])))
