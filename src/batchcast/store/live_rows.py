"""A row of the jobs table as the live clock takes it, and its memory a node; without numpy and SQLAlchemy.

Answers need it too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..events.live import DELIVERED_GONE, DELIVERED_START, LiveJob
from ..job import as_submitted


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


def live_job(row: Mapping[str, Any]) -> LiveJob:
    """What was told as it was told, the rest as it is known now; the request is what the table of columns says.

    Processors by the reading rule `req`: asked for, else held.
    """
    start, end, status = row["start_time"], row["end_time"], row["status"]
    if row["told"] & (DELIVERED_START | DELIVERED_GONE):
        start = row["told_start"]
    if row["told"] & DELIVERED_GONE:
        end, status = row["told_end"], row["told_status"]
    values = {**row, "queue_id": row["partition_id"]}  # in Slurm and PBS a partition is the queue
    request = as_submitted(row["row"], values, procs=_number(row["req_procs"] or row["alloc_procs"]))
    return LiveJob(request, _number(start), _number(end), status, row["told"], peak_mem_kib=node_peak(row))


def _number(value: float | None) -> float:
    return math.nan if value is None else value
