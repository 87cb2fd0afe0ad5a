"""The configuration files of a lab: slurm.conf and slurmdbd.conf. The same lines work with Slurm 22.05 and 24.11."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path


def write(root: Path, ports: Sequence[int], nodes: int, cpus: int, speed: float, conf: Mapping[str, str]) -> None:
    """Write both files below `root`/etc; the lines of `conf` come last and override earlier lines."""
    lines = [f"{k}={v}" for k, v in (_settings(root, ports, speed) | dict(conf)).items()]
    lines += [
        f"NodeName=n{k} NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[1 + k]} CPUs={cpus} "
        "RealMemory=4000 State=UNKNOWN"
        for k in range(1, nodes + 1)
    ]
    lines.append("PartitionName=main Nodes=ALL Default=YES DefaultTime=60 MaxTime=7-0 State=UP")
    (root / "etc" / "slurm.conf").write_text("\n".join(lines) + "\n")
    _write_slurmdbd(root, ports[1])


def _settings(root: Path, ports: Sequence[int], speed: float) -> dict[str, str]:
    run, log = root / "run", root / "log"
    slow = speed != 1
    settings = {
        "ClusterName": "lab",
        "SlurmctldHost": "localhost(127.0.0.1)",
        "SlurmctldPort": str(ports[0]),
        "SlurmUser": "root",
        "SlurmdUser": "root",
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={run}/munge.socket",
        "StateSaveLocation": f"{root}/state",
        "SlurmdSpoolDir": f"{root}/spool/%n",
        "SlurmctldPidFile": f"{run}/slurmctld.pid",
        "SlurmdPidFile": f"{run}/slurmd-%n.pid",
        "SlurmctldLogFile": f"{log}/slurmctld.log",
        "SlurmdLogFile": f"{log}/slurmd-%n.log",
        "SlurmctldDebug": "info",
        "SlurmdDebug": "error",
        "MailProg": "/bin/true",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "JobAcctGatherType": "jobacct_gather/none",
        "ReturnToService": "2",
        "SlurmdParameters": "config_overrides",
        "SchedulerType": "sched/backfill",
        "SchedulerParameters": "bf_interval=30,bf_resolution=60,bf_continue,sched_interval=30,batch_sched_delay=0"
        if slow
        else "bf_interval=2,bf_resolution=1,bf_continue,sched_interval=5,sched_min_interval=0,batch_sched_delay=0",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "PriorityType": "priority/basic",
        "MinJobAge": "1800" if slow else "300",
        "MaxJobCount": "20000",
        "KillWait": "5",
        "JobRequeue": "1",
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": "localhost",
        "AccountingStoragePort": str(ports[1]),
        "AccountingStoragePass": f"{run}/munge.socket",
        "AccountingStoreFlags": "job_comment",
    }
    if slow:  # Slurm's time-outs count seconds of the fast clock
        settings |= {
            "MessageTimeout": "3600",
            "TCPTimeout": "1200",
            "SlurmdTimeout": "0",
            "SlurmctldTimeout": "3600",
            "BatchStartTimeout": "7200",
            "UnkillableStepTimeout": "7200",
        }
    return settings


def _write_slurmdbd(root: Path, port: int) -> None:
    run, log = root / "run", root / "log"
    database = root / "etc" / "slurmdbd.conf"
    database.touch(0o600)
    database.write_text(
        "\n".join(
            [
                "AuthType=auth/munge",
                f"AuthInfo=socket={run}/munge.socket",
                "DbdHost=localhost",
                "DbdAddr=127.0.0.1",
                f"DbdPort={port}",
                "SlurmUser=root",
                "DebugLevel=info",
                f"LogFile={log}/slurmdbd.log",
                f"PidFile={run}/slurmdbd.pid",
                "StorageType=accounting_storage/mysql",
                "StorageHost=localhost",
                "StorageUser=slurm",
                "StoragePass=lab",
                "StorageLoc=slurm_acct_db",
                "",
            ]
        )
    )
