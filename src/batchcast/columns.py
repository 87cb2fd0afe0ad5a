# SPDX-License-Identifier: Apache-2.0
"""The declaration of all columns of a job log: unit, when the value becomes known, and names in SWF, Slurm and PBS.

There are three kinds of columns. A `number` is float64 with NaN for unknown. A `nominal` is dictionary-coded: int32
codes into a tuple of categories, with the code -1 for null, as in Arrow. An `id` identifies the job. `known_at` is the
event of a job at which the value becomes known, such as its submission or its end. Predictors see only columns that are
known at submission (predict/gate.py).

Memory amounts are for the whole job in all logs except SWF, in which fields 7 and 10 are per processor.
`LogInfo.memory_per` records the unit of memory columns, and `table.memory` converts requested and used memory to one
unit: per node if the log has node counts, else per processor. Used memory is the peak of the busiest node times the
number of allocated nodes, so that it can be compared with the request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Moment = Literal["submission", "queue", "start", "end"]
Kind = Literal["number", "nominal", "id"]
MOMENT_WORDS: dict[Moment, str] = {
    "submission": "when the job is submitted",
    "queue": "only in the queue",
    "start": "only when the job starts",
    "end": "only when the job has ended",
}


@dataclass(frozen=True, slots=True)
class Column:
    """The declaration of one column."""

    name: str  # The column's name in a `Trace`
    kind: Kind  # Kind of the column: `number`, `nominal` or `id`
    unit: str  # The unit of the column's numbers; empty if they have none
    known_at: Moment  # The event of a job at which the value becomes known
    meaning: str  # A short description of the column for people
    swf: int | None = None  # The column's field number in SWF, from 1
    sacct: str | None = None  # The column's field in sacct's output
    # The column's field in the output of `squeue -O`. The store saves the values of this field in an SQL column with
    # this column's name.
    squeue: str | None = None
    pbs: str | None = None  # The column's attribute in the output of `qstat -f`
    # The column's places in the output of `sacct --json` and `squeue --json`; the first place with a value is used
    json: tuple[str, ...] = ()
    sbatch: str | None = None  # Long name of the column's option of sbatch


# fmt: off
_ALL = (
    Column(
        "job_id", "id", "", "submission", "Job id of the batch system: a whole number or text", 1, sacct="JobID"
    ),
    Column("submit_time", "number", "s", "submission", "Submission time on the log's clock", 2, sacct="Submit",
           json=("time/submission", "submit_time")),
    Column("wait_time", "number", "s", "start", "Start minus submission; withdrawn jobs: until they left", 3),
    Column("run_time", "number", "s", "end", "End minus start", 4, sacct="ElapsedRaw", json=("time/elapsed",)),
    Column("alloc_procs", "number", "processors", "start", "Processors allocated", 5,
           sacct="AllocCPUS", squeue="NumCPUs", pbs="Resource_List.ncpus"),
    Column("avg_cpu_time", "number", "s", "end", "CPU time used, mean per processor", 6),
    Column("used_mem_kib", "number", "KiB", "end", "Peak memory of the whole job; per processor in SWF", 7,
           sacct="MaxRSS", pbs="resources_used.mem"),
    Column("req_procs", "number", "processors", "submission", "Processors requested", 8,
           sacct="ReqCPUS", squeue="NumCPUs", pbs="Resource_List.ncpus", json=("required/CPUs", "cpus")),
    Column("req_time", "number", "s", "submission", "Time limit that the user requested", 9,
           sacct="TimelimitRaw", squeue="TimeLimit", pbs="Resource_List.walltime"),
    Column("req_mem_kib", "number", "KiB", "submission", "Memory requested for the whole job; per processor in SWF", 10,
           sacct="ReqMem", squeue="tres-alloc", pbs="Resource_List.mem"),
    Column("status", "nominal", "", "end", "How the job ended: completed, failed, timeout, ...", 11, sacct="State"),
    Column("user_id", "nominal", "", "submission", "User who submitted the job", 12,
           sacct="User", squeue="UserName", pbs="Job_Owner", json=("user", "association/user", "user_name")),
    Column("group_id", "nominal", "", "submission", "Group of the user", 13,
           sacct="Group", squeue="GroupName", pbs="egroup", json=("group", "group_name")),
    Column("app_id", "nominal", "", "submission",
           "Executable, if the log names it; for Slurm a digest of the script's name and arguments", 14,
           sacct="SubmitLine", squeue="Command"),
    Column("queue_id", "nominal", "", "submission", "Queue", 15),
    Column("partition_id", "nominal", "", "submission", "Partition", 16,
           sacct="Partition", squeue="Partition", pbs="queue", json=("partition",)),
    # SWF's two columns about dependencies are computed from the finished log
    Column("prev_job_id", "number", "", "end", "Job that this job followed", 17),
    Column("think_time", "number", "s", "end", "Pause after the job that this job followed", 18),
    Column("eligible_time", "number", "s", "queue", "Time from which only the queue delays the job", sacct="Eligible",
           json=("time/eligible", "eligible_time")),
    Column("account", "nominal", "", "submission", "Account charged",
           sacct="Account", squeue="Account", pbs="Account_Name", json=("account",), sbatch="account"),
    Column("qos", "nominal", "", "submission", "Quality of service requested",
           sacct="QOS", squeue="QOS", json=("qos",), sbatch="qos"),
    Column("job_name", "nominal", "", "submission", "Job name",
           sacct="JobName", squeue="Name", pbs="Job_Name", json=("name",), sbatch="job-name"),
    Column("req_nodes", "number", "nodes", "submission", "Nodes requested",
           sacct="ReqNodes", squeue="NumNodes", pbs="Resource_List.nodect"),
    Column("alloc_nodes", "number", "nodes", "start", "Nodes allocated",
           sacct="AllocNodes", squeue="NumNodes", pbs="Resource_List.nodect"),
    Column("node_list", "nominal", "", "start", "Nodes allocated, as a host list: n[1-4,7]",
           sacct="NodeList", squeue="NodeList", json=("nodes",)),
    Column("req_gpus", "number", "GPUs", "submission", "GPUs requested",
           sacct="ReqTRES", squeue="tres-alloc", pbs="Resource_List.ngpus"),
    Column("gpu_type", "nominal", "", "submission", "Type of the GPUs requested, if the job names one: a100",
           sacct="ReqTRES", squeue="tres-alloc"),
    Column("alloc_gpu_type", "nominal", "", "start", "Type of the GPUs allocated, if accounting names one",
           sacct="AllocTRES"),
    Column("used_gpus", "number", "GPUs", "end", "Mean number of busy GPUs in the busiest step",
           sacct="TRESUsageInTot"),
    Column("used_gpu_mem_kib", "number", "KiB", "end", "Memory of all GPUs in the step that used most of it",
           sacct="TRESUsageInTot"),
    Column("work_dir", "nominal", "", "submission", "Working directory", sacct="WorkDir", squeue="WorkDir",
           json=("working_directory", "current_working_directory"), sbatch="chdir"),
    Column("constraint", "nominal", "", "submission", "Features that a node must have",
           sacct="Constraints", squeue="Feature", json=("constraints", "features"), sbatch="constraint"),
    Column("reservation", "nominal", "", "submission", "Reservation requested", sacct="Reservation",
           json=("reservation/name", "resv_name"), sbatch="reservation"),
    Column("partition_list", "nominal", "", "submission", "Partitions requested, if several",
           sacct="SubmitLine", squeue="Partition", sbatch="partition"),
    Column("dependency", "nominal", "", "submission", "Dependency: afterok:12, singleton",
           sacct="SubmitLine", pbs="depend", sbatch="dependency"),
    Column("licenses", "nominal", "", "submission", "Licenses requested: matlab:2",
           sacct="SubmitLine", sbatch="licenses"),
    Column("exclusive", "number", "", "submission", "1: the job shares its nodes with no other job",
           sacct="SubmitLine", squeue="OverSubscribe", pbs="Resource_List.place", sbatch="exclusive"),
    Column("array_throttle", "number", "tasks", "submission", "Maximum number of tasks of the array that run at once",
           sacct="SubmitLine", sbatch="array"),
    Column("nice", "number", "", "submission", "Value that lowers the priority",
           sacct="SubmitLine", squeue="Nice", sbatch="nice"),
    Column("cpus_per_task", "number", "processors", "submission", "Processors that each task needs on one node",
           sacct="SubmitLine", squeue="cpus-per-task", sbatch="cpus-per-task"),
    Column("restarts", "number", "", "start", "Number of requeues before this run",
           sacct="Restarts", json=("restart_cnt",)),
    Column("cluster", "nominal", "", "submission", "Cluster, if the log covers several",
           sacct="Cluster", json=("cluster",)),
)
# fmt: on

# Extra columns that `batchcast vasp collect` reads from a job's input files, in their state before the job started.
_FROM_INPUTS = (
    Column("kpoints", "number", "", "submission", "VASP: k-points before symmetry"),
    Column("volume", "number", "cubic angstrom", "submission", "VASP: cell volume"),
    Column("prec", "nominal", "", "submission", "VASP: precision"),
    Column("ichg", "number", "", "submission", "VASP: initial charge density"),
    Column("isym", "number", "", "submission", "VASP: use of symmetry"),
    Column("lreal", "nominal", "", "submission", "VASP: projection in real space"),
    Column("ispin", "number", "", "submission", "VASP: 2 is spin-polarised"),
    Column("istart", "number", "", "submission", "VASP: above 0 continues from a WAVECAR"),
    Column("nelmin", "number", "", "submission", "VASP: fewest electronic steps"),
    Column("nelm", "number", "", "submission", "VASP: most electronic steps"),
    Column("ediff", "number", "eV", "submission", "VASP: electronic convergence"),
    Column("ediffg", "number", "eV", "submission", "VASP: ionic convergence"),
    Column("encut", "number", "eV", "submission", "VASP: plane-wave cutoff"),
    Column("nbands", "number", "", "submission", "VASP: bands"),
    Column("nions", "number", "", "submission", "VASP: ions"),
    Column("nelect", "number", "", "submission", "VASP: valence electrons"),
    Column("input_files", "nominal", "", "submission", "VASP: how the input files were found"),
)

COLUMNS: dict[str, Column] = {column.name: column for column in _ALL}
INPUT_COLUMNS: dict[str, Column] = {column.name: column for column in _FROM_INPUTS}
DECLARED: dict[str, Column] = {**COLUMNS, **INPUT_COLUMNS}
KNOWN_AT_SUBMISSION = frozenset(column.name for column in DECLARED.values() if column.known_at == "submission")
# Names of common sums of columns, and the event of a job at which the sum becomes known.
SUMS: dict[str, Moment] = {"start_time": "start", "end_time": "end", "response_time": "end"}
SWF_FIELDS: tuple[str, ...] = tuple(c.name for c in sorted((c for c in _ALL if c.swf), key=lambda c: c.swf or 0))

_LIVE = tuple(column for column in _ALL if column.squeue)
REQUESTED: tuple[Column, ...] = tuple(column for column in _LIVE if column.known_at == "submission")
"""Columns of a request that squeue shows. The store saves them only once, when the collector first sees the job,
because the first prediction used these values.
"""
ALLOCATED: tuple[Column, ...] = tuple(column for column in _LIVE if column.known_at != "submission")
"""Columns that squeue shows only after a job has started."""
MEASURED: tuple[Column, ...] = (COLUMNS["used_mem_kib"],)
"""Columns that only the accounting records have, and only for jobs that have ended."""

OUT_OF_MEMORY = "out_of_memory"
"""Status of a job that was killed because it exceeded its memory limit."""
COPIED, FEWEST, SAME = 0.9, 20, 1e-3
"""A measured column counts as a copy of the request if both are equal in this share of the jobs (0.9), among at least
this many jobs (20). Two amounts are equal if they differ by at most this share (0.001) of the request."""


def is_copied(equal: float, compared: float) -> bool:
    """Return whether a measured column only repeats the requests, from the number of `compared` jobs and how many of
    them have `equal` amounts.

    >>> is_copied(18, 20), is_copied(17, 20), is_copied(19, 19)
    (True, False, False)
    """
    return compared >= FEWEST and equal >= COPIED * compared
