"""A job as it is known at submission, and as it is known afterwards. Only a clock holds the second."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

Name = int | str | None
NO_EXTRA: Mapping[str, Any] = {}


class JobRequest(NamedTuple):
    """What is known when a job is submitted; it has no run time, wait or end, so nothing built on it can leak them.

    `row` is the job's place in log order (submit time, then job id, then row), or a running number on a live
    cluster: a name for the job, never a hint of its future. `procs` is what the log's reading rule gave (requested,
    else allocated). Numbers are NaN and names None when unknown; `extra` holds typed columns beyond the house's own.
    """

    row: int
    job_id: int | str
    submit_time: float
    procs: float
    req_time: float
    req_mem_kib: float
    user_id: Name = None
    group_id: Name = None
    app_id: Name = None
    queue_id: Name = None
    partition_id: Name = None
    account: Name = None
    qos: Name = None
    job_name: Name = None
    extra: Mapping[str, Any] = NO_EXTRA


class JobRecord(NamedTuple):
    """A request with what came of it. `run_time` is NaN for a job that never ran, `wait_time` NaN where unknown."""

    request: JobRequest
    wait_time: float
    run_time: float
    status: Name = None

    @property
    def start_time(self) -> float:
        """submit + wait, seconds on the log's clock."""
        return self.request.submit_time + self.wait_time

    @property
    def end_time(self) -> float:
        """submit + wait + run, seconds on the log's clock."""
        return self.request.submit_time + self.wait_time + self.run_time

    @property
    def response_time(self) -> float:
        """wait + run, seconds."""
        return self.wait_time + self.run_time
