# SPDX-License-Identifier: Apache-2.0
"""A row of the jobs table as the live clock takes it; without SQLAlchemy, since answers need it too."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..events.live import DELIVERED_GONE, DELIVERED_START, LiveJob
from ..job import as_submitted
from .packed import node_peak


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
