# SPDX-License-Identifier: Apache-2.0
"""Rows of the store as what the rest works with: a node's memory, an issued forecast, a job of the live clock.

Without SQLAlchemy and, but for the live clock's job, without numpy, since answers need them too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..predict.protocol import Grounds, Prediction

if TYPE_CHECKING:
    from ..events.live import LiveJob


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


NOTHING, UNSTATED = str(Grounds.NO_HISTORY), str(Grounds.UNSTATED)


def as_values(prediction: Prediction) -> dict[str, Any]:
    """The columns of a forecast."""
    return {
        "point_s": float(prediction.point),
        "levels": json.dumps([float(x) for x in prediction.levels]),
        "quantiles_s": json.dumps([float(x) for x in prediction.quantiles]),
        "basis": prediction.basis,
        "grounds": str(prediction.grounds),
    }


FIELDS = ("as_of", "point_s", "levels", "quantiles_s", "basis", "grounds")


def newest(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row of a job that waits, with its renewed forecast (`renewed_` before each name) in the other one's place.

    As it is where there is none, or it rests on nothing.

    >>> newest({"point_s": 60.0, "renewed_point_s": None})["point_s"]
    60.0
    """
    if row.get("renewed_point_s") is None or row["renewed_grounds"] == NOTHING:
        return row
    return {**row, **{name: row[f"renewed_{name}"] for name in FIELDS}}


def as_prediction(row: Mapping[str, Any]) -> Prediction:
    """The forecast in a row."""
    levels, quantiles = tuple(json.loads(row["levels"])), tuple(json.loads(row["quantiles_s"]))
    grounds = Grounds(row.get("grounds") or UNSTATED)
    return Prediction(row["point_s"], levels, quantiles, row.get("basis", ""), grounds)


def live_job(row: Mapping[str, Any]) -> LiveJob:
    """What was told as it was told, the rest as it is known now; the request is what the table of columns says.

    Processors by the reading rule `req`: asked for, else held.
    """
    from ..events.live import DELIVERED_GONE, DELIVERED_START, LiveJob  # which need numpy
    from ..job import as_submitted

    start, end, status = row["start_time"], row["end_time"], row["status"]
    if row["told"] & (DELIVERED_START | DELIVERED_GONE):
        start = row["told_start"]
    if row["told"] & DELIVERED_GONE:
        end, status = row["told_end"], row["told_status"]
    values = {**row, "queue_id": row["partition_id"]}  # in Slurm and PBS a partition is the queue
    request = as_submitted(row["row"], values, procs=_number(row["req_procs"] or row["alloc_procs"]))
    held = {"peak_mem_kib": node_peak(row), "nodes": row["node_list"]}
    return LiveJob(request, _number(start), _number(end), status, row["told"], **held)


def _number(value: float | None) -> float:
    return math.nan if value is None else value
