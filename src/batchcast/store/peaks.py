# SPDX-License-Identifier: Apache-2.0
"""The memory of one row of the jobs table, a node's share of it; without numpy, since answers need it too."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def node_peak(row: Mapping[str, Any]) -> float:
    """KiB that one node of an ended job held at most, NaN unknown: its nodes' share of what was measured.

    >>> node_peak({"used_mem_kib": 300.0, "alloc_nodes": 3.0}), node_peak({"used_mem_kib": None, "alloc_nodes": 1.0})
    (100.0, nan)
    """
    used, nodes = row["used_mem_kib"], row["alloc_nodes"]
    return math.nan if used is None else used / max(nodes or 1.0, 1.0)


def asked_a_node(row: Mapping[str, Any]) -> float:
    """KiB a node that a job asked for, NaN unknown.

    >>> asked_a_node({"req_mem_kib": 300.0, "req_nodes": None})
    300.0
    """
    asked = row["req_mem_kib"]
    return math.nan if asked is None else asked / max(row["req_nodes"] or 1.0, 1.0)
