# SPDX-License-Identifier: Apache-2.0
"""The one table of columns: what a job's history holds, its unit, when it is known, its names in SWF and sacct.

Three kinds. A `number` is float64, unknown is NaN. A `nominal` is dictionary-coded: int32 codes into a tuple of
categories, the code -1 meaning null as in Arrow. An `id` names the job. `known` says from which moment of a job's life
its value can be told: only what is known at submission reaches a predictor (predict/gate.py).

Memory is that of the whole job in every log but SWF, whose fields 7 and 10 are per processor; `LogInfo.memory_per`
says which, and `table.memory` makes of either what is compared: per node where a log knows nodes, else per processor.
Used is the peak of the busiest node times the nodes held, so that it stands beside what was asked.
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
    """One column: name, kind, unit, the moment it is known from, and its place in SWF (field from 1) and sacct.

    `squeue` and `pbs` name the field it is read from on a live cluster (squeue -O, an attribute of qstat -f). What
    squeue shows the collector keeps, each in an SQL column of the same name: see `ASKED` and `HELD`.
    """

    name: str
    kind: Kind
    unit: str
    known: Moment
    meaning: str
    swf: int | None = None
    sacct: str | None = None
    squeue: str | None = None
    pbs: str | None = None


# fmt: off
_ALL = (
    Column(
        "job_id", "id", "", "submission", "Job id of the batch system: a whole number or text", 1, sacct="JobID"
    ),
    Column("submit_time", "number", "s", "submission", "Submission time on the log's clock", 2, sacct="Submit"),
    Column("wait_time", "number", "s", "start", "Start minus submission; withdrawn jobs: until they left", 3),
    Column("run_time", "number", "s", "end", "End minus start", 4, sacct="ElapsedRaw"),
    Column("alloc_procs", "number", "processors", "start", "Processors allocated", 5,
           sacct="AllocCPUS", squeue="NumCPUs", pbs="Resource_List.ncpus"),
    Column("avg_cpu_time", "number", "s", "end", "CPU time used, mean per processor", 6),
    Column("used_mem_kib", "number", "KiB", "end", "Peak memory of the whole job; per processor in SWF", 7,
           sacct="MaxRSS", pbs="resources_used.mem"),
    Column("req_procs", "number", "processors", "submission", "Processors requested", 8,
           sacct="ReqCPUS", squeue="NumCPUs", pbs="Resource_List.ncpus"),
    Column("req_time", "number", "s", "submission", "Time limit that the user requested", 9,
           sacct="TimelimitRaw", squeue="TimeLimit", pbs="Resource_List.walltime"),
    Column("req_mem_kib", "number", "KiB", "submission", "Memory requested for the whole job; per processor in SWF", 10,
           sacct="ReqMem", squeue="tres-alloc", pbs="Resource_List.mem"),
    Column("status", "nominal", "", "end", "How the job ended: completed, failed, timeout, ...", 11, sacct="State"),
    Column("user_id", "nominal", "", "submission", "User who submitted the job", 12,
           sacct="User", squeue="UserName", pbs="Job_Owner"),
    Column("group_id", "nominal", "", "submission", "Group of the user", 13,
           sacct="Group", squeue="GroupName", pbs="egroup"),
    Column("app_id", "nominal", "", "submission", "Executable, if the log names it", 14),
    Column("queue_id", "nominal", "", "submission", "Queue", 15),
    Column("partition_id", "nominal", "", "submission", "Partition", 16,
           sacct="Partition", squeue="Partition", pbs="queue"),
    # SWF's two columns on dependencies are worked out from the finished log
    Column("prev_job_id", "number", "", "end", "Job that this job followed", 17),
    Column("think_time", "number", "s", "end", "Pause after the job that this job followed", 18),
    Column("eligible_time", "number", "s", "queue", "Time from which only the queue delays the job", sacct="Eligible"),
    Column("account", "nominal", "", "submission", "Account charged",
           sacct="Account", squeue="Account", pbs="Account_Name"),
    Column("qos", "nominal", "", "submission", "Quality of service requested", sacct="QOS", squeue="QOS"),
    Column("job_name", "nominal", "", "submission", "Job name",
           sacct="JobName", squeue="Name", pbs="Job_Name"),
    Column("req_nodes", "number", "nodes", "submission", "Nodes requested",
           sacct="ReqNodes", squeue="NumNodes", pbs="Resource_List.nodect"),
    Column("alloc_nodes", "number", "nodes", "start", "Nodes allocated",
           sacct="AllocNodes", squeue="NumNodes", pbs="Resource_List.nodect"),
    Column("node_list", "nominal", "", "start", "Nodes allocated, as a host list: n[1-4,7]",
           sacct="NodeList", squeue="NodeList"),
    Column("req_gpus", "number", "GPUs", "submission", "GPUs requested",
           sacct="ReqTRES", squeue="tres-alloc", pbs="Resource_List.ngpus"),
    Column("used_gpus", "number", "GPUs", "end", "Mean number of busy GPUs in the busiest step",
           sacct="TRESUsageInTot"),
    Column("work_dir", "nominal", "", "submission", "Working directory", sacct="WorkDir", squeue="WorkDir"),
    Column("constraint", "nominal", "", "submission", "Features that a node must have",
           sacct="Constraints", squeue="Feature"),
    Column("reservation", "nominal", "", "submission", "Reservation requested", sacct="Reservation"),
    Column("partition_list", "nominal", "", "submission", "Partitions requested, if several",
           sacct="SubmitLine", squeue="Partition"),
    Column("dependency", "nominal", "", "submission", "Dependency: afterok:12, singleton",
           sacct="SubmitLine", pbs="depend"),
    Column("licenses", "nominal", "", "submission", "Licenses requested: matlab:2", sacct="SubmitLine"),
    Column("exclusive", "number", "", "submission", "1: the job shares its nodes with no other job",
           sacct="SubmitLine", squeue="OverSubscribe", pbs="Resource_List.place"),
    Column("array_throttle", "number", "tasks", "submission", "Maximum number of tasks of the array that run at once",
           sacct="SubmitLine"),
    Column("nice", "number", "", "submission", "Value that lowers the priority",
           sacct="SubmitLine", squeue="Nice"),
    Column("cpus_per_task", "number", "processors", "submission", "Processors that each task needs on one node",
           sacct="SubmitLine", squeue="cpus-per-task"),
    Column("restarts", "number", "", "start", "Number of requeues before this run", sacct="Restarts"),
    Column("cluster", "nominal", "", "submission", "Cluster, if the log covers several", sacct="Cluster"),
)
# fmt: on

# Read from a job's input files as they were before it started (`batchcast vasp collect`): extra columns of a log.
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
    Column("vasp_inputs", "nominal", "", "submission", "VASP: how the input files were found"),
)

COLUMNS: dict[str, Column] = {column.name: column for column in _ALL}
INPUT_COLUMNS: dict[str, Column] = {column.name: column for column in _FROM_INPUTS}
DECLARED: dict[str, Column] = {**COLUMNS, **INPUT_COLUMNS}
KNOWN_AT_SUBMISSION = frozenset(column.name for column in DECLARED.values() if column.known == "submission")
# Words for sums of columns: a log that holds one of them under that name holds the future.
SUMS: dict[str, Moment] = {"start_time": "start", "end_time": "end", "response_time": "end"}
SWF_FIELDS: tuple[str, ...] = tuple(c.name for c in sorted((c for c in _ALL if c.swf), key=lambda c: c.swf or 0))

_LIVE = tuple(column for column in _ALL if column.squeue)
ASKED: tuple[Column, ...] = tuple(column for column in _LIVE if column.known == "submission")
"""What a live cluster shows of a request: written once, at first sight, since predictors were asked with it."""
HELD: tuple[Column, ...] = tuple(column for column in _LIVE if column.known != "submission")
"""What it shows beside that of a job that runs or ran."""
MEASURED: tuple[Column, ...] = (COLUMNS["used_mem_kib"],)
"""What only accounting says, and only of a job that has ended: measured while it ran."""

OUT_OF_MEMORY = "out_of_memory"
"""The status of a job that its memory limit ended: it needed more than it got."""
COPIED, FEWEST, SAME = 0.9, 20, 1e-3
"""A measurement equals the request in so many jobs, of so many at least, within that share of it: it is a copy."""


def is_copied(equal: float, known: float) -> bool:
    """Whether a measured amount is a copy of what was asked for, and so no measurement.

    `equal` of the `known` jobs that have both amounts have the same twice; fewer than 20 say nothing.

    >>> is_copied(18, 20), is_copied(17, 20), is_copied(19, 19)
    (True, False, False)
    """
    return known >= FEWEST and equal >= COPIED * known
