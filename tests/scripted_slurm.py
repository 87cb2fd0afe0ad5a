"""A scripted slurmctld that answers planning's calls, with a real store and a planner."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import insert

from batchcast.planning.record import State
from batchcast.predict.protocol import Grounds, Prediction
from batchcast.service.planning.agent import Planner
from batchcast.service.settings import load
from batchcast.slurm.transport import Answer
from batchcast.store import clock_jobs, planned
from batchcast.store.database import Store
from batchcast.store.schema import jobs as table

CONFIG = (
    "OverTimeLimit           = 60 min\nBOOT_TIME               = {booted}\nAccountingStorageEnforce = {enforce}\n"
    "PrologSlurmctld         = {prolog}\n"
)
PARTITION = "PartitionName=main MaxTime=7-00:00:00 DefaultTime=02:00:00 OverTimeLimit=NONE\n"
START = 10_000.0
SAID = Prediction(900.0, (0.5, 0.9), (900.0, 1800.0), "like jobs", Grounds.CLASS)


@dataclass
class Job:
    """A job as slurmctld has it, with the time limit in minutes."""

    job_id: str
    limit: int = 120
    state: str = "PENDING"
    line: str = "sbatch -t 120 job.sh"
    script: str = "#!/bin/sh\nsleep 1\n"
    time_min: int = 0
    comment: str = ""
    admin_comment: str = ""
    factor: int = 0
    held: bool = False
    own: int = 1000
    account: str = ""
    qos: str = "normal"
    partition: str = "main"

    @property
    def priority(self) -> int:
        """Return the priority that slurmctld computes from its own priority and the factor: at least 1."""
        return max(self.own + self.factor, 1)


@dataclass
class Scripted:
    """Answers what planning asks of Slurm; a test may replace `update` by a function that fails."""

    jobs: dict[str, Job]
    time: float = START
    enforce: str = "none"
    reservation: str = ""
    commands: list[str] = field(default_factory=list)
    before_update: Callable[[], None] = lambda: None
    refuses: bool = False
    level: str = "Operator"
    prolog: str = ""
    priority: str = "PriorityType = priority/multifactor\n"
    qos: str = ""
    booted: int = 100

    def now(self) -> float:
        self.time += 0.01
        return self.time

    def ticks(self) -> float:
        return self.time

    def ask(self, command: Sequence[str]) -> Answer:
        words = " ".join(command)
        if words.startswith("scontrol show config"):
            text = (
                CONFIG.format(booted=self.booted, enforce=self.enforce, prolog=self.prolog or "(null)") + self.priority
            )
        elif words.startswith("sprio"):
            waiting = (j for j in self.jobs.values() if j.state == "PENDING" and not j.held)
            text = "".join(f"{j.job_id} {j.priority} {j.factor}\n" for j in waiting)
        elif words.endswith("format=Priority"):
            text = self.qos
        elif words.startswith("squeue"):
            header = "x~" * " ".join(command).count(":{mark}") + "\n"
            text = header + "".join(self.shown(job, command) for job in self.jobs.values())
        elif words.startswith("sacct "):
            text = "".join(f"{j.job_id}~{j.line}~\n" for j in self.jobs.values())
        elif words.startswith("sacctmgr -nP show user"):
            text = f"{command[4]}|{self.level}\n"
        elif words.startswith("sacctmgr"):
            text = "normal||cpu=100|||\n" if "qos" in words else ""
        else:
            text = {"partition": PARTITION, "reservation": self.reservation}[command[-1]]
        return Answer(text, "~", self.now())

    @staticmethod
    def shown(job: Job, command: Sequence[str]) -> str:
        values = {
            "JobID": job.job_id, "JobArrayID": job.job_id, "SubmitTime": "9000", "State": job.state,
            "TimeLimit": f"{job.limit}:00", "Partition": job.partition, "UserName": "ada", "QOS": job.qos,
            "Account": job.account or "N/A", "BatchFlag": "1",
            "MinTime": f"{job.time_min}:00", "NumCPUs": "1", "EligibleTime": "9000", "Comment": job.comment or "(null)",
            "admin_comment": job.admin_comment or "(null)",
        }  # fmt: skip
        names = re.findall(r"(\w+):", next(w for w in command if w.startswith("--Format")).partition("=")[2])
        return "".join(f"{values.get(name, 'N/A')}~" for name in names) + "\n"

    def attempt(self, command: Sequence[str]) -> tuple[Answer, str]:
        if command[0] == "squeue":
            return self.ask(command), ""
        if command[1] == "write":
            return Answer(self.jobs[command[3]].script, "", self.time), ""
        self.commands.append(" ".join(command[2:]))
        self.before_update()
        if self.refuses:
            return Answer("", "", self.time), "scontrol: exit 1: Access/permission denied"
        asked = dict(word.split("=", 1) for word in command[3:])
        if "admincomment" in asked and self.level != "Administrator":
            return Answer("", "", self.time), "scontrol: exit 1: Access/permission denied"
        for job_id in command[2].partition("=")[2].split(","):
            job = self.jobs[job_id]
            job.limit = int(asked.get("timelimit", job.limit))
            if job.state == "PENDING":
                job.time_min = int(asked.get("timemin", job.time_min))
            job.factor = int(asked.get("SiteFactor", job.factor))
            job.comment = asked.get("comment", job.comment)
            job.admin_comment = asked.get("admincomment", job.admin_comment)
        return Answer("", "", self.time), ""


class Site:
    """A scripted Slurm, a store in which every job has a predicted run time of half an hour, and a planner."""

    def __init__(self, tmp_path: Path, *jobs: Job, said: Prediction = SAID, **settings: object) -> None:
        tmp_path.mkdir(exist_ok=True)
        self.slurm = Scripted({job.job_id: job for job in jobs})
        self.store = Store(str(tmp_path / "s.db"), create=True)
        self.settings = load({"plan": "plan", "plan_partitions": "main", "runtime": "kernel", **settings}, {})
        with self.store.begin() as connection:
            for row, job in enumerate(jobs, 1):
                values = {"row": row, "cluster": "c", "job_id": job.job_id, "submit_time": 9000.0, "state": "pending"}
                connection.execute(insert(table).values(**values, open=1, first_seen=9000.0))
                shared = {"kind": "runtime", "moment": "submit", "method": "kernel", "as_of": 9000.0, "issued_at": 9.0}
                clock_jobs.issue(connection, [{"row": row, **shared, "prediction": said}])
        self.planner = self.restarted()

    def waits(self, seconds: float) -> None:
        """Give every job a predicted wait of this length."""
        said = Prediction(seconds, (0.1, 0.5, 0.99), (seconds / 2, seconds, 2 * seconds), "like jobs", Grounds.CLASS)
        with self.store.begin() as connection:
            for row in range(1, len(self.slurm.jobs) + 1):
                shared = {
                    "kind": "wait",
                    "moment": "submit",
                    "method": "recent_wait",
                    "as_of": 9000.0,
                    "issued_at": 9.0,
                }
                clock_jobs.issue(connection, [{"row": row, **shared, "prediction": said}])

    def restarted(self) -> Planner:
        self.planner = Planner(self.slurm, self.store, self.settings)
        return self.planner

    def cycle(self) -> tuple[int, int, int]:
        self.slurm.time += 120.0
        return self.planner.cycle("c").counts

    def state(self, job_id: str) -> State:
        with self.store.begin() as connection:
            return planned.entries(connection, "c")[job_id].state
