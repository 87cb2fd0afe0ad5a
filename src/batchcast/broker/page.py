# SPDX-License-Identifier: Apache-2.0
"""The HTML page of `grid serve`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..report.blocks import Block, Section, Table, columns_of, page
from ..units import span

if TYPE_CHECKING:
    from .live import Broker
    from .on_clusters import ClusterBroker

MOST_ROWS = 500


def broker_page(broker: Broker | ClusterBroker) -> str:
    """Return the page of `grid serve`: jobs in time, and the resource, deadline and slack of each job."""
    counts = broker.counts
    rows = [{"state": "", "resource": "", "refused": "", **row} for row in broker.table()[-MOST_ROWS:]]
    free = [{"id": name, "free": at} for name, at in broker.free_at().items()]
    times = [f"{name}|{name}|ratio" for name in ("start", "finish", "deadline", "slack")]
    columns = columns_of("id|job", "state", "resource|on", *(times if free else CLUSTER_COLUMNS), "refused|why not")
    blocks: list[Block] = [
        f"{counts['jobs']} jobs: {counts['in_time']} end in time, {counts['not_in_time']} do not, "
        f"{counts['waiting']} wait.",
        Table("Jobs, the latest last", columns, rows if free else [_on_cluster(row) for row in rows]),
    ]
    if free:
        blocks.append(Table("Resources", columns_of("id|resource", "free|free at|ratio"), free))
    return page("Grid broker", [Section("Jobs", blocks)], {"settings": {"mapping": str(broker.mapping)}})


CLUSTER_COLUMNS = ("job_id|job id there", "start|likely start", "finish|likely end", "by_90|end, 90 %", "deadline",
                   "slack", "chance|chance to be in time|share")  # fmt: skip


def _on_cluster(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a job on a cluster, with local times, and the slack as a duration."""
    times = {name: row.get(name) for name in ("start", "finish", "by_90", "deadline")}
    shown = {k: "" if t is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(t)) for k, t in times.items()}
    slack = row.get("slack")
    shown["slack"] = "" if slack is None else f"{'-' if slack < 0 else ''}{span(abs(slack))}"
    return {"job_id": "", "chance": None, **row, **shown}
