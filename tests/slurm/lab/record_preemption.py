"""Runs eleven jobs that preempt each other on a real Slurm, and prints when each starts and how often it is preempted.

    python tests/slurm/lab/record_preemption.py [partition_prio|qos] [GRACE]    sacct's lines, every run of a job

The output for partition_prio without grace time is in tests/golden/test_preemption.py.
"""

from __future__ import annotations

import sys
from functools import partial

from slurm_lab import Lab

SPEED = 10.0
JOBS = """
0 a low -n4 -N1 60 1500
0 b low -n2 -N1 60 1500
0 c low -n2 -N1 60 1200
0 d low -n8 -N2 60 1500
20 e low -n4 -N1 30 600
200 h1 high -n4 -N1 20 500
210 f low -n1 -N1 10 300
500 h2 high -n6 -N1-4 20 600
900 m1 mid -n4 -N1 20 400
1500 h3 high -n16 -N4 10 200
1600 g low -n4 -N1 30 300
"""  # submission (s), name, rank, tasks, nodes, limit (min), run time (s)
FIELDS = "JobName,JobIDRaw,Submit,Eligible,Start,End,State,Partition,QOS,NodeList"
QOS = {"low": "scav", "mid": "normal", "high": "urgent"}


def configuration(kind: str, grace: str) -> dict[str, str]:
    """Lines of slurm.conf: three partitions of different tiers, two of which can be preempted."""
    common = "MaxTime=4:00:00 State=UP"
    return {
        "PartitionName": f"low Nodes=ALL PriorityTier=1 PreemptMode=REQUEUE GraceTime={grace} {common}",
        "Partitionname": f"high Nodes=ALL PriorityTier=10 PreemptMode=OFF {common}",
        "partitionName": f"mid Nodes=n[1-2] PriorityTier=5 PreemptMode=REQUEUE {common}",
        "PreemptMode": "REQUEUE",
        "PreemptType": f"preempt/{kind}",
        "SchedulerParameters": "bf_interval=30,bf_resolution=60,bf_continue,sched_interval=60,batch_sched_delay=3",
        "MessageTimeout": "100",
        "KillWait": "30",
    }


def record(kind: str = "partition_prio", grace: str = "0") -> str:
    """Return what sacct prints when all jobs have ended."""
    with Lab(nodes=4, cpus=4, speed=SPEED, conf=configuration(kind, grace)) as lab:
        if kind == "qos":
            for words in (
                ("add", "qos", "scav", "Priority=1", f"GraceTime={grace}"),
                ("add", "qos", "urgent", "Priority=100", "Preempt=scav,normal"),
                ("modify", "qos", "normal", "set", "Priority=10", "Preempt=scav"),
                ("modify", "account", "physics,chemistry", "set", "qos=normal,scav,urgent"),
            ):
                lab.run("sacctmgr", "-iQ", *words)
        begin = lab.now() + 20
        for line in JOBS.strip().splitlines():
            at, name, rank, tasks, nodes, limit, run = line.split()
            lab.wait(partial(_has_come, lab, begin + float(at)), f"{at} s", 900)
            where = ["-p", "main", "-q", QOS[rank]] if kind == "qos" else ["-p", rank]
            lab.submit("--requeue", *where, tasks, nodes, "-t", limit, seconds=float(run), name=name)
        lab.wait(lambda: not lab.run("squeue", "-h").strip(), "end", 900)
        recorded = partial(lab.run, "sacct", "-DXaP", "-S", "now-3days")
        # slurmdbd writes what has ended a moment after squeue is empty
        lab.wait(lambda: "Unknown" not in recorded("--format=End"), "end of each job in the record", 900)
        return recorded(f"--format={FIELDS}")


def _has_come(lab: Lab, at: float) -> bool:
    return bool(lab.now() >= at)


if __name__ == "__main__":
    print(record(*sys.argv[1:]))
