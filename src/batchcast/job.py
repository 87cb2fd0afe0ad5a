# SPDX-License-Identifier: Apache-2.0
"""A job as it is known at submission, and as it is known afterwards. Only a clock holds the second."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import nan
from typing import Any, NamedTuple

from .columns import DECLARED, KNOWN_AT_SUBMISSION

Name = int | str | None
NO_EXTRA: Mapping[str, Any] = {}


class JobRequest(NamedTuple):
    """What is known when a job is submitted; it has no run time, wait or end, so nothing built on it can leak them.

    `row` is the job's place in log order (submit time, then job id, then row), or a running number on a live
    cluster: a name for the job, never a hint of its future. `procs` is what the log's reading rule gave (requested,
    else allocated). Numbers are NaN and names None when unknown. `extra` holds the other columns that are known at
    submission: declared ones without an attribute here, and those of a user's table that the user vouched for.
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
    work_dir: Name = None
    req_procs: float = nan
    req_nodes: float = nan
    req_gpus: float = nan
    extra: Mapping[str, Any] = NO_EXTRA


ATTRIBUTES = tuple(name for name in JobRequest._fields if name not in ("row", "procs", "extra"))


def as_submitted(row: int, values: Mapping[str, Any], *, procs: float, vouched: Collection[str] = ()) -> JobRequest:
    """The request in a record by column names, whatever else the record holds: what is known later stays behind.

    Parameters
    ----------
    row
        The job's place in log order, or a running number.
    values
        The record: column name to value; absent or None is unknown.
    procs
        Processors by the reading rule in force; NaN is unknown.
    vouched
        Names of undeclared columns that are known at submission.

    >>> as_submitted(0, {"job_id": 7, "submit_time": 5.0, "run_time": 9.0, "req_gpus": 2.0}, procs=1.0).req_gpus
    2.0
    """
    known = {name: _value(name, values.get(name)) for name in ATTRIBUTES}
    extra = {
        name: _value(name, value)
        for name, value in values.items()
        if (name in KNOWN_AT_SUBMISSION and name not in known) or (name in vouched and name not in DECLARED)
    }
    return JobRequest(row=row, procs=procs, **known, extra=extra or NO_EXTRA)


def _value(name: str, value: Any) -> Any:
    return nan if value is None and name in DECLARED and DECLARED[name].kind == "number" else value


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
