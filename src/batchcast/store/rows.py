# SPDX-License-Identifier: Apache-2.0
"""Converts rows of the store: memory per node, issued predictions, and jobs of the live clock.

The module does not import SQLAlchemy, and only `live_job` needs NumPy, because short-lived commands use it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import InputError
from ..job import DELIVERED_GONE, DELIVERED_START
from ..predict.protocol import Grounds, Prediction
from .place import RESTORE

if TYPE_CHECKING:
    from ..events.live import LiveJob


def node_peak(row: Mapping[str, Any]) -> float:
    """Return the peak memory per node of an ended job in KiB: the measured amount divided by its nodes; NaN if unknown.

    >>> node_peak({"used_mem_kib": 300.0, "alloc_nodes": 3.0}), node_peak({"used_mem_kib": None, "alloc_nodes": 1.0})
    (100.0, nan)
    """
    used, nodes = row["used_mem_kib"], row["alloc_nodes"]
    return math.nan if used is None else used / max(nodes or 1.0, 1.0)


def asked_a_node(row: Mapping[str, Any]) -> float:
    """Return the requested memory per node in KiB; NaN if unknown.

    >>> asked_a_node({"req_mem_kib": 300.0, "req_nodes": None})
    300.0
    """
    asked = row["req_mem_kib"]
    return math.nan if asked is None else asked / max(row["req_nodes"] or 1.0, 1.0)


_NUMBERS = (
    "cycle_at", "heard_since", "history_from", "history_until", "interval_s", "late", "live_since", "snapshot_at",
    "told_until", "total_procs", "unbroken_since",
)  # fmt: skip
_LISTS = ("limit_methods", "memory_methods", "problems", "runtime_methods", "wait_methods")


class _SiteValues(msgspec.Struct):
    """The checked parts of the stored value `site`: a damaged value must not make hidden jobs visible."""

    private: bool | None = None
    partitions: dict[str, dict[str, Any]] = {}
    version: str = ""
    total_procs: float | None = None


_KINDS: Mapping[str, Any] = {
    **dict.fromkeys(_NUMBERS, float | None), **dict.fromkeys(_LISTS, list[str] | None), "site": _SiteValues,
    "health": dict[str, Any] | None, "collected_by": str | None,
}  # fmt: skip
"""The types of a cluster's values in the table `meta`, by name. The types of other values are not checked."""


def stored_values(rows: Iterable[Mapping[str, Any]], store: str) -> dict[str, Any]:
    """Return the values of a cluster from rows of the table `meta` with the columns `name` and `value`.

    >>> stored_values([{"name": "cycle_at", "value": "5.0"}], "store.db")
    {'cycle_at': 5.0}
    >>> stored_values([{"name": "cycle_at", "value": "[]"}], "store.db")
    Traceback (most recent call last):
    batchcast.errors.InputError: store.db: the stored value 'cycle_at' is damaged: Expected `float | null`, got `array`
      try: restore a backup, or move the file away ...
    """
    values: dict[str, Any] = {}
    for row in rows:
        try:
            value = values[row["name"]] = json.loads(row["value"])
            if row["name"] in _KINDS:
                msgspec.convert(value, _KINDS[row["name"]])
        except (ValueError, TypeError, RecursionError) as error:  # a ValidationError is a ValueError
            raise InputError(f"{store}: the stored value {row['name']!r} is damaged: {error}", hint=RESTORE) from None
    return values


NOTHING, UNSTATED = str(Grounds.NO_HISTORY), str(Grounds.UNSTATED)


def as_values(prediction: Prediction) -> dict[str, Any]:
    """Return a prediction as values for columns of the store."""
    return {
        "point_s": float(prediction.point),
        "levels": json.dumps([float(x) for x in prediction.levels]),
        "quantiles_s": json.dumps([float(x) for x in prediction.quantiles]),
        "basis": prediction.basis,
        "grounds": str(prediction.grounds),
    }


FIELDS = ("as_of", "point_s", "levels", "quantiles_s", "basis", "grounds")


def newest(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a waiting job's row with its renewed prediction (columns `renewed_...`) in place of the first prediction.

    The row is returned unchanged if there is no renewed prediction, or if no finished job supports the renewed
    prediction.

    >>> newest({"point_s": 60.0, "renewed_point_s": None})["point_s"]
    60.0
    """
    if row.get("renewed_point_s") is None or row["renewed_grounds"] == NOTHING:
        return row
    return {**row, **{name: row[f"renewed_{name}"] for name in FIELDS}}


def as_prediction(row: Mapping[str, Any]) -> Prediction:
    """Return the prediction that a row of the store contains."""
    levels, quantiles = tuple(json.loads(row["levels"])), tuple(json.loads(row["quantiles_s"]))
    grounds = Grounds(row.get("grounds") or UNSTATED)
    return Prediction(row["point_s"], levels, quantiles, row.get("basis", ""), grounds)


def live_job(row: Mapping[str, Any]) -> LiveJob:
    """Convert a row to a job of the live clock.

    Start, end and status are used as the clock delivered them; if it has not delivered them yet, the current values are
    used. The processors are the requested processors or, if unknown, the allocated processors.
    """
    from ..events.live import LiveJob  # imported here because it loads NumPy
    from ..job import as_submitted

    start, end, status = row["start_time"], row["end_time"], row["status"]
    if row["told"] & (DELIVERED_START | DELIVERED_GONE):
        start = row["told_start"]
    if row["told"] & DELIVERED_GONE:
        end, status = row["told_end"], row["told_status"]
    values = {**row, "queue_id": row["partition_id"]}  # in Slurm and PBS a partition is the queue
    numbers = start, end, row["req_procs"] or row["alloc_procs"]
    start, end, procs = (math.nan if value is None else value for value in numbers)
    request = as_submitted(row["row"], values, procs=procs)
    if features := features_of(row):
        request = request._replace(extra={**request.extra, **features})
    held = {"peak_mem_kib": node_peak(row), "nodes": row["node_list"]}
    return LiveJob(request, start, end, status, row["told"], **held)


def features_of(row: Mapping[str, Any]) -> dict[str, float | str]:
    """Return the features of the input files that the collector read when the job was submitted; empty if none.

    >>> features_of({"inputs": '{"input_files": "read", "encut": 400.0}'}), features_of({"inputs": None})
    ({'input_files': 'read', 'encut': 400.0}, {})
    """
    return json.loads(row["inputs"]) if row.get("inputs") else {}
