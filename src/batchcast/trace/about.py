"""What a document says of the log it is about."""

from __future__ import annotations

from typing import Any

from ..table import Trace
from .zone import format_date, zone


def describe_log(trace: Trace) -> dict[str, Any]:
    """The `log` part of a JSON document: where the jobs came from, when, on what, and what was left out."""
    info = trace.info
    where = zone(info.timezone)
    submits = trace.submit_time[[0, -1]] + info.unix_start if len(trace) else [float("nan")] * 2
    first, last = (format_date(float(t), where) for t in submits)
    return {
        "source": info.source,
        "format": info.format,
        "sha256": info.sha256,
        "jobs": len(trace),
        "first_submit": first,
        "last_submit": last,
        "timezone": info.timezone,
        "timezone_source": info.timezone_source,
        "unix_start_s": info.unix_start,
        "machine_procs": info.max_procs,
        "machine_procs_source": info.max_procs_source,
        "machine_nodes": info.max_nodes,
        "dropped": dict(info.dropped),
    }
