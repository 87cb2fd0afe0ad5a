"""Tests output of Slurm 23.02 to 25.11. None of this output was recorded, because only Slurm 22.05 runs here.

The texts were written from the manual pages of those versions (squeue(1): JOB STATE CODES and --Format, sacct(1),
scontrol(1), job_state_codes of 24.05 and later), in the form of printed `scontrol show` output of a 25.11.4. They
contain the differences from 22.05: unset plug-ins are (null), a job may request several QOS, GPUs may be listed by type
only, partitions have further fields, and there are more states.
"""

from __future__ import annotations

import math

import pytest

from batchcast.formats.slurm import squeue
from batchcast.slurm.client import Slurm
from batchcast.slurm.transport import Answer

CONFIG = """\
Configuration data as of 1795229481
AccountingStorageBackupHost = (null)
AccountingStorageHost   = localhost
AccountingStorageTRES   = cpu,mem,energy,node,billing,fs/disk,vmem,pages
AccountingStorageType   = {accounting}
BOOT_TIME               = 1795209660
ClusterName             = linux
MetricsType             = (null)
MinJobAge               = 300 sec
NamespaceType           = (null)
PreemptType             = (null)
PrivateData             = {private}
SLURM_VERSION           = {version}
SlurmctldHost[0]        = slurmctld
TLSType                 = tls/none

Slurmctld(primary) at slurmctld is UP
"""
PARTITIONS = (
    "PartitionName=cpu AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES QoS=N/A"
    " DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO ExclusiveTopo=NO GraceTime=0 Hidden=NO"
    " MaxNodes=UNLIMITED MaxTime=UNLIMITED"
    " MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED MaxCPUsPerSocket=UNLIMITED NodeSets=cpu_nodes Nodes=c[1-2]"
    " PriorityJobFactor=1 PriorityTier=1 State=UP TotalCPUs=24 TotalNodes=2 Topology=default JobDefaults=(null)"
    " TRES=cpu=24,mem=15674M,node=2,billing=24\n"
    "PartitionName=gpu AllowGroups=ALL Default=NO DefaultTime=01:00:00 MaxTime=1-00:00:00 Nodes=(null) State=UP"
    " TotalCPUs=0 TotalNodes=0 TRES=(null)\n"
)
JOB = {
    "JobID": "2", "JobArrayID": "2", "SubmitTime": "1795229481", "StartTime": "1795229482", "EndTime": "1795230082",
    "EligibleTime": "1795229481", "RestartCnt": "0", "State": "RUNNING", "Reason": "None", "TimeLimit": "10:00",
    "NumCPUs": "2", "NumNodes": "1", "tres-alloc": "cpu=2,mem=8000M,node=1,billing=2,gres/gpu:a100=4",
    "UserName": "ada", "GroupName": "ada",
    "Account": "physics", "Partition": "cpu", "QOS": "normal", "PriorityLong": "4294901758",
    "Dependency": "(null)", "NodeList": "c1", "WorkDir": "/tmp", "Name": "x",
}  # fmt: skip
ACCOUNTED = {
    "JobID": "2", "JobIDRaw": "2", "Submit": "1795229481", "Eligible": "1795229481", "Start": "1795229482",
    "End": "1795229999", "State": "COMPLETED", "TimelimitRaw": "10", "AllocCPUS": "2", "ReqCPUS": "2",
    "AllocNodes": "1", "ReqNodes": "1", "ReqMem": "8000M",
    "ReqTRES": "billing=2,cpu=2,gres/gpu:a100=4,mem=8000M,node=1", "User": "ada",
    "Group": "ada", "Account": "physics", "Partition": "cpu", "QOS": "high", "Priority": "1", "AdminComment": "",
    "WorkDir": "/tmp", "JobName": "x",
}  # fmt: skip


class Prints:
    """A transport that returns a newer version's configuration and partitions, and rejects sdiag."""

    def __init__(self, **config: str) -> None:
        self.config = {"accounting": "accounting_storage/slurmdbd", "private": "none", "version": "25.11.4"} | config

    def now(self) -> float:
        return 1795229481.0

    def ask(self, command: tuple[str, ...]) -> Answer:
        return Answer(PARTITIONS if "partition" in command else CONFIG.format(**self.config), "", self.now())


def test_the_site() -> None:
    site = Slurm(Prints()).site()
    assert (site.cluster, site.version, site.keeps_s, site.accounting, site.private) == (
        "linux",
        "25.11.4",
        300,
        True,
        False,
    )
    assert site.total_procs == 24
    assert site.partitions["cpu"]["is_default"] == 1
    assert site.partitions["cpu"]["max_time_s"] == math.inf
    assert site.partitions["gpu"]["default_time_s"] == 3600


@pytest.mark.parametrize(
    ("accounting", "there"),
    [("(null)", False), ("accounting_storage/none", False), ("accounting_storage/slurmdbd", True)],
)
def test_no_accounting_has_two_names(accounting: str, there: bool) -> None:
    assert Slurm(Prints(accounting=accounting)).site().accounting is there


def test_private_jobs() -> None:
    assert Slurm(Prints(private="accounts,jobs,usage")).site().private


@pytest.mark.parametrize(
    ("state", "nodes", "waits", "certain"),
    [
        ("PENDING", "", True, True),
        ("RESV_DEL_HOLD", "", True, True),
        ("POWER_UP_NODE", "", True, True),
        ("POWER_UP_NODE", "c1", False, True),
        ("RUNNING", "c1", False, True),
        ("EXPEDITING", "c1", False, False),
        ("LAUNCH_FAILED", "c1", False, False),
        ("RECONFIG_FAIL", "c1", False, False),
        ("UPDATE_DB", "", False, False),
        ("A_STATE_TO_COME", "c1", False, False),
    ],
)
def test_a_state_that_22_05_did_not_know_ends_no_job(state: str, nodes: str, waits: bool, certain: bool) -> None:
    job = squeue.sighting({**JOB, "State": state, "NodeList": nodes})
    assert math.isnan(job.end_time)
    assert job.certain is certain
    assert (job.state == "PENDING") is waits
    assert math.isnan(job.start_time) is waits


def test_several_qos_and_partitions_mean_the_first() -> None:
    waiting = {**JOB, "State": "PENDING", "NodeList": "", "QOS": "high,normal", "Partition": "cpu,gpu"}
    job = squeue.sighting(waiting)
    assert (job.requested["qos"], job.requested["partition_id"]) == ("high", "cpu")
    (done,) = squeue.ended({**ACCOUNTED, "QOS": "high,normal"})
    assert done.requested["qos"] == "high"


def test_gpus_that_are_listed_by_type_only_are_counted() -> None:
    assert squeue.sighting(JOB).requested["req_gpus"] == 4
    (done,) = squeue.ended(ACCOUNTED)
    assert done.requested["req_gpus"] == 4
    assert (done.requested["req_mem_kib"], done.end_time - done.start_time) == (8192000, 517)
