"""The one table of columns: what a job's history holds, in which unit, and where SWF and sacct keep it.

Two kinds. A `number` is float64, unknown is NaN. A `nominal` is dictionary-coded: int32 codes into a tuple of
categories, the code -1 meaning null as in Arrow. `at_submission` marks what is known when a job is submitted: only
these reach a predictor (DESIGN: the future is hidden by type).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Column:
    """One column: name, kind, unit, SWF field (from 1) and sacct field, and whether it is known at submission."""

    name: str
    kind: Literal["number", "nominal", "id"]
    unit: str
    swf: int | None
    sacct: str | None
    at_submission: bool
    meaning: str


_ALL = (
    Column("job_id", "id", "", 1, "JobID", True, "the batch system's name of the job; whole numbers or text"),
    Column("submit_time", "number", "s", 2, "Submit", True, "seconds on the log's clock"),
    Column(
        "wait_time", "number", "s", 3, None, False, "start - submit; of a job withdrawn from the queue: until it left"
    ),
    Column("run_time", "number", "s", 4, "ElapsedRaw", False, "end - start"),
    Column("alloc_procs", "number", "processors", 5, "AllocCPUS", False, "processors held"),
    Column("avg_cpu_time", "number", "s", 6, None, False, "CPU time used, mean over processors"),
    Column("used_mem_kib", "number", "KiB", 7, None, False, "memory used, per processor"),
    Column("req_procs", "number", "processors", 8, "ReqCPUS", True, "processors asked for"),
    Column("req_time", "number", "s", 9, "TimelimitRaw", True, "the user's limit (wall time)"),
    Column(
        "req_mem_kib", "number", "KiB", 10, "ReqMem", True, "memory asked for, per processor in SWF, whole job in sacct"
    ),
    Column("status", "nominal", "", 11, "State", False, "how it ended, see formats.status"),
    Column("user_id", "nominal", "", 12, "User", True, "who submitted"),
    Column("group_id", "nominal", "", 13, "Group", True, "the user's group"),
    Column("app_id", "nominal", "", 14, None, True, "the executable, where the log tells"),
    Column("queue_id", "nominal", "", 15, None, True, "the queue"),
    Column("partition_id", "nominal", "", 16, "Partition", True, "the part of the machine"),
    Column("prev_job_id", "number", "", 17, None, False, "the job this one followed"),
    Column("think_time", "number", "s", 18, None, False, "pause after the job this one followed"),
    Column("eligible_time", "number", "s", None, "Eligible", False, "when nothing but the queue held it back"),
    Column("account", "nominal", "", None, "Account", True, "the account charged"),
    Column("qos", "nominal", "", None, "QOS", True, "quality of service asked for"),
    Column("job_name", "nominal", "", None, "JobName", True, "the user's name for the job"),
    Column("req_nodes", "number", "nodes", None, "ReqNodes", True, "nodes asked for"),
    Column("alloc_nodes", "number", "nodes", None, "NNodes", False, "nodes held"),
    Column("req_gpus", "number", "GPUs", None, None, True, "GPUs asked for"),
    Column("work_dir", "nominal", "", None, "WorkDir", True, "working directory"),
    Column("restarts", "number", "", None, "Restarts", False, "how often it was requeued before this run"),
)

COLUMNS: dict[str, Column] = {column.name: column for column in _ALL}
SWF_FIELDS: tuple[str, ...] = tuple(c.name for c in sorted((c for c in _ALL if c.swf), key=lambda c: c.swf or 0))
AT_SUBMISSION: tuple[str, ...] = tuple(c.name for c in _ALL if c.at_submission)
