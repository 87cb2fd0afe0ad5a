"""A lab on which limits are planned: its partitions, a collector that plans, and the outcomes of jobs and limits."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from follow import Follower
from slurm_lab import Lab

from batchcast.cli.site.setup import START, unit_files
from batchcast.errors import BatchcastError
from batchcast.store.reader import Reader

SPEED, MINUTE = 60.0, 60.0
OVER = {"main": 15.0, "short": 10.0, "exact": 0.0}
CONF = {
    "OverTimeLimit": "15",
    "PartitionName": "short Nodes=ALL MaxTime=2:00:00 OverTimeLimit=10 State=UP",
    "Partitionname": "exact Nodes=ALL MaxTime=2:00:00 OverTimeLimit=0 State=UP",
    "partitionname": "urgent Nodes=ALL MaxTime=2:00:00 OverTimeLimit=0 PriorityTier=10 PreemptMode=OFF State=UP",
    "PreemptType": "preempt/partition_prio",
    "PreemptMode": "REQUEUE",
}


AGENTS: list[Follower] = []
"""Every collector created here, because two collectors that plan one lab would not know of each other."""


class Asked(NamedTuple):
    """A job as its user requested it; times in minutes."""

    limit: int
    runs: float
    partition: str = "main"


class Ran(NamedTuple):
    """A job as accounting has it; times in minutes."""

    limit: float
    ran: float
    state: str


def agent(lab: Lab, name: str, store: str = "", interval: float = 30.0, **settings: str) -> Follower:
    """A collector that plans every partition with the shortest allowed limits."""
    follower = Follower(
        lab,
        store or str(lab.root / f"{name}.db"),
        interval=interval,
        **{
            "HISTORY_DAYS": "0.01",
            "RUNTIME": "hasty:Hasty",
            "WAIT": "recent_wait:need=1",
            "PLAN": "plan",
            "PLAN_PARTITIONS": "main,short,exact",
            "PLAN_CALL_S": "3600",
            "PLAN_LAG_S": "86400",
            "TIMEOUT_S": "900",
            **settings,
        },
    )
    follower.env["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    AGENTS.append(follower)
    return follower


@contextlib.contextmanager
def lab_with_script(place: Path) -> Iterator[Lab]:
    """A lab at sixty times the speed whose slurmctld runs `batchcast-start` when a job starts, as `batchcast install`
    writes it. The collector must list planned jobs in `place`/planned."""
    script = place / START
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    with Lab(nodes=4, cpus=4, speed=SPEED, conf={**CONF, "PrologSlurmctld": str(script)}) as lab:
        more = {"plan_list": str(place / "planned"), "slurm_conf": str(lab.slurm_conf)}
        script.write_text(unit_files("batchcast", is_open=True, is_remote=False, **more)[START])
        yield lab


def submitted(lab: Lab, asked: list[Asked], *options: str) -> dict[str, Asked]:
    """Submit the jobs; return them by job id."""
    return {
        lab.submit("-t", str(one.limit), "-p", one.partition, *options, seconds=one.runs * MINUTE): one for one in asked
    }


def accounted(lab: Lab) -> dict[str, Ran]:
    """Return every job that accounting knows."""
    text = lab.run("sacct", "-XnPa", "--starttime=2000-01-01", "--format=JobID,TimelimitRaw,ElapsedRaw,State")
    rows = (line.split("|") for line in text.splitlines())
    return {i: Ran(float(limit), float(ran) / 60, state.split(" ")[0]) for i, limit, ran, state in rows}


def told(lab: Lab) -> dict[str, str]:
    """Return every job's AdminComment in accounting."""
    text = lab.run("sacct", "-XnPa", "--starttime=2000-01-01", "--format=JobID,AdminComment")
    return dict(line.split("|", 1) for line in text.splitlines())


def early(asked: dict[str, Asked], ran: dict[str, Ran]) -> list[str]:
    """Return jobs that ended neither by themselves nor at or after their user's limit."""
    return [
        f"job {i}: asked {one}, was {ran[i]}"
        for i, one in asked.items()
        if not (ran[i].state == "COMPLETED" and ran[i].ran >= min(one.runs, one.limit) - 0.05)
        and not (ran[i].state == "TIMEOUT" and ran[i].ran >= one.limit)
    ]


def kill(lab: Lab, name: str) -> None:
    """Send SIGKILL to slurmctld or slurmdbd, and wait until the process is gone."""
    pid = int(lab.pid_file(name).read_text())
    os.kill(pid, signal.SIGKILL)
    lab.wait(lambda: not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text(), "a dead daemon")


def saved(lab: Lab, job_id: str) -> None:
    """Wait until slurmctld has saved its state: a slurmctld killed before that starts running jobs again."""
    path, now = lab.root / "state" / "job_state", time.time()
    # a change, so that slurmctld has something to save
    lab.run("scontrol", "update", f"jobid={job_id}", "comment=saved")
    lab.wait(lambda: path.exists() and path.stat().st_mtime > now, "a saved state")


def limits_now(lab: Lab) -> dict[str, float]:
    """Return the limit in minutes of every job that has not ended."""
    rows = (line.split() for line in lab.run("squeue", "-hro", "%i %l", "-t", "PD,R,S").splitlines())
    return {i: minutes(text) for i, text in rows}


def factors(lab: Lab) -> dict[str, int]:
    """Return the SiteFactor of each waiting record that has one."""
    rows = (line.split() for line in lab.run("sprio", "-h", "-o", "%i %S").splitlines())
    return {i: int(site) for i, site in rows if int(site)}


def minutes(text: str) -> float:
    """Return the text that squeue prints for a limit, up to days."""
    days, _, rest = text.rpartition("-")
    whole = [float(x) for x in rest.split(":")]
    return float(days or 0) * 1440.0 + sum(x * 60.0**k for k, x in enumerate(reversed(whole))) / 60


def empty(lab: Lab, seconds: float) -> None:
    """Wait until every job has ended."""
    lab.wait(lambda: not lab.run("squeue", "-h", "-t", "PD,R,CG,S", "-o", "%i").split(), "ended jobs", seconds)


def steps(follower: Follower) -> list[dict[str, object]]:
    """The audit of planning."""
    with contextlib.suppress(BatchcastError):  # the store does not exist yet
        return Reader(follower.store).rows("SELECT * FROM plan_changes ORDER BY id")
    return []


def of_kind(follower: Follower, what: str) -> set[object]:
    """Return the jobs that have arrived so far."""
    return {s["job_id"] for s in steps(follower) if s["what"] == what}


def lowest(asked: dict[str, Asked], done: list[dict[str, object]]) -> None:
    """Check that no limit was set below what OverTimeLimit covers, and none in a partition without OverTimeLimit."""
    for step in done:
        one = asked[str(step["job_id"])]
        assert float(str(step["limit_to"])) >= (one.limit - OVER[one.partition]) * MINUTE
        assert one.partition != "exact"
