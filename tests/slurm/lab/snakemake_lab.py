"""Runs a real Snakemake whose tasks run on the lab's Slurm, and records what each task requested, used and waited.

Only the tasks' memory and run time are prescribed; Snakemake really submits with sbatch, queries sacct, retries failed
tasks, and asks `batchcast.client` for requests.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from follow import BATCHCAST, Follower, stored
from slurm_lab import Lab

import batchcast.client

RULES = {"trim": (90, 60, 1), "align": (260, 150, 2), "dedup": (200, 60, 1), "call": (140, 120, 1)}
"""For each rule, the median memory of its tasks (MiB), their run time (s), and their processors."""
CONF = {
    "JobAcctGatherType": "jobacct_gather/linux",
    "JobAcctGatherFrequency": "task=1",
    "JobAcctGatherParams": "OverMemoryKill",
    "SelectTypeParameters": "CR_Core_Memory",
    "DefMemPerNode": "200",
}
WRITTEN_MIB, WRITTEN_MIN = 1500, 40
SNAKEFILE = """
import json, time
from batchcast_client import Client

client, plan, advised = Client(), json.load(open("plan.json")), {advised}

def asked(what, written, rule, attempt):
    if not advised:
        return written
    begun = time.perf_counter()
    answer = getattr(client, what)(written, rule, attempt=attempt, procs=plan["procs"][rule])
    with open("questions.jsonl", "a") as out:
        out.write(json.dumps([rule, what, written, answer, time.perf_counter() - begun]) + "\\n")
    return answer

rule all:
    input: "all.txt"

rule gather:
    output: "all.txt"
    input: expand("{{sample}}.{last}", sample=plan["samples"])
    localrule: True
    shell: "cat {{input}} > {{output}}"
"""
HOLD = "perl -e 'my $x = chr(97) x ($ARGV[0] << 20); select undef, undef, undef, $ARGV[1]'"
RULE = """
rule {name}:
    output: "{{sample}}.{name}"
    input: {before}
    threads: {procs}
    params: held=lambda w: plan["{name}"][w.sample][0], takes=lambda w: plan["{name}"][w.sample][1]
    resources:
        runtime=lambda w, attempt: -int(-asked("limit_s", {limit_s}, "{name}", attempt) // 60),
        mem_mb=lambda w, attempt: -int(-asked("memory_mib", {mib}, "{name}", attempt) // 1),
    shell: "echo {name} {{wildcards.sample}} | cat {{input}} - > {{output}}.part && "
           "LD_PRELOAD=$LAB_CLOCK {hold} {{params.held}} {{params.takes}} && mv {{output}}.part {{output}}"
"""
JOB = """#!/bin/sh
# properties = {properties}
LAB_CLOCK=$LD_PRELOAD
export LAB_CLOCK
unset LD_PRELOAD
{exec_job}
"""
"""Snakemake's own process uses the real clock, because Python's timers do not end on the fast clock; its tasks use the
lab's clock."""
STATUS = Path(__file__).parents[3] / "contrib" / "snakemake" / "status.sh"


class Asked(NamedTuple):
    """A job of the workflow as accounting has it: MiB per node, processors, seconds."""

    rule: str
    state: str
    mib: float
    procs: int
    limit_s: float
    wait_s: float
    run_s: float


def missing() -> str:
    """Return why Snakemake cannot run here; an empty string if it can."""
    return "" if Path(*snakemake()).exists() else "no Snakemake in .venv/snakemake (make setup-workflows)"


def snakemake() -> list[str]:
    """Return the command of Snakemake: from `make setup-workflows`, else from $BATCHCAST_SNAKEMAKE."""
    return [os.environ.get("BATCHCAST_SNAKEMAKE") or str(Path(sys.prefix) / "snakemake" / "bin" / "snakemake")]


class Helped:
    """A collector on the lab's clock and the service on the real clock, which can be killed and restarted."""

    def __init__(self, lab: Lab, interval: float = 30.0, **more: str) -> None:
        self.lab, self.socket, self.killed = lab, lab.root / "answers.sock", 0
        settings = {
            "LIMIT_FLOOR": "00:01:00",
            "LIMIT_STEP": "00:01:00",
            "HISTORY_EVERY_S": "60",
            "WAIT": "recent_wait:need=1",
            **more,
        }
        self.collector = Follower(lab, str(lab.root / "workflow.db"), interval=interval, **settings)
        self.service: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Helped:
        self.collector.start()
        self.lab.wait(lambda: Path(self.collector.store).exists(), "a store")
        self.serve()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.collector.kill()

    def serve(self) -> None:
        """Start the service and wait until it answers on its socket."""
        environment = {k: v for k, v in self.collector.env.items() if k != "LD_PRELOAD" and "FAKETIME" not in k}
        with (self.lab.root / "log" / "serve.log").open("ab") as log:
            self.service = subprocess.Popen(
                [*BATCHCAST, "serve", "--listen", str(self.socket)], env=environment, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log,
            )  # fmt: skip
        self.lab.wait(self._answers, "answer of the service")

    def kill(self) -> None:
        """Stop the service for the rest of the run."""
        if self.service is not None:
            self.service.kill()
            self.service.wait(30)
            self.service, self.killed = None, self.killed + 1

    def caught_up(self) -> None:
        """Wait until the collector has read every ended job."""
        ended = len(self.lab.run("sacct", "-nXa", "-S", "now-7days", "-s", "CD,F,TO,OOM,CA", "-o", "JobID").split())
        self.lab.wait(lambda: len(stored(self.collector.store)) >= ended, "job in the store", 120)

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as one:
            one.settimeout(30.0)
            one.connect(str(self.socket))
            one.sendall(b"GET /v1/health HTTP/1.0\r\n\r\n")
            return one.recv(12).endswith(b"200")
        return False


class Workflow:
    """A workflow of `samples` times the first `rules` of `RULES`; `run` runs all of it in a new folder."""

    def __init__(self, lab: Lab, samples: int, seed: int, rules: int = len(RULES)) -> None:
        self.lab, self.samples, self.seed = lab, samples, seed
        self.rules = dict(list(RULES.items())[:rules])
        self.runs = 0

    def run(self, name: str, advised: bool, service: Path | None = None) -> Path:
        """Start the workflow; return its folder when every task has ended. Raises RuntimeError with Snakemake's output
        if it failed."""
        return self.wait(self.start(name, advised, service))

    def start(self, name: str, advised: bool, service: Path | None = None) -> tuple[Path, subprocess.Popen[bytes]]:
        """Start Snakemake in the folder."""
        self.runs += 1
        folder = self.lab.root / f"workflow-{self.runs}-{name}"
        folder.mkdir()
        self._write(folder, advised)
        environment = {
            **{k: v for k, v in self.lab.env.items() if k != "LD_PRELOAD" and not k.startswith("FAKETIME")},
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "HOME": str(folder),
            "BATCHCAST_SERVICE": str(service or folder / "nobody.sock"),
        }
        submit = (
            f"sbatch --parsable -J {{rule}} -n {{threads}} -N1 -t {{resources.runtime}} --mem={{resources.mem_mb}}M"
            f" --comment={name} -o {folder}/log/%j.txt --export=ALL"
        )
        command = [
            *snakemake(), "--executor", "cluster-generic", "--cluster-generic-submit-cmd", submit,
            "--cluster-generic-status-cmd", str(folder / "bin" / "status"), "--jobscript", str(folder / "job.sh"),
            "--jobs", "200", "--retries", "2", "--max-status-checks-per-second", "5", "--seconds-between-status-checks",
            "1", "--latency-wait", "10", "--nocolor", "--quiet", "rules", "--shared-fs-usage", "input-output",
            "persistence", "software-deployment", "sources", "source-cache", "storage-local-copies",
        ]  # fmt: skip
        with (folder / "snakemake.log").open("wb") as log:
            running = subprocess.Popen(
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        return folder, running

    def wait(self, started: tuple[Path, subprocess.Popen[bytes]], seconds: float = 3600.0) -> Path:
        """Return the folder after Snakemake has ended."""
        folder, running = started
        try:
            failed = running.wait(seconds)
        except BaseException:
            running.kill()
            raise
        if failed:
            raise RuntimeError((folder / "snakemake.log").read_text(errors="replace")[-3000:])
        return folder

    def _write(self, folder: Path, advised: bool) -> None:
        rng = np.random.default_rng(self.seed)
        samples = [f"s{k:03}" for k in range(self.samples)]
        plan: dict[str, Any] = {
            "samples": samples,
            "procs": {name: procs for name, (_, _, procs) in self.rules.items()},
        }
        for name, (mib, seconds, _) in self.rules.items():
            held, takes = rng.lognormal(0, 0.15, self.samples) * mib, rng.lognormal(0, 0.25, self.samples) * seconds
            plan[name] = {s: [int(h), round(float(t), 1)] for s, h, t in zip(samples, held, takes)}
        (folder / "plan.json").write_text(json.dumps(plan))
        text, before = SNAKEFILE.format(advised=advised, last=list(self.rules)[-1]), "[]"
        for name, (_, _, procs) in self.rules.items():
            text += RULE.format(
                name=name, before=before, procs=procs, limit_s=60 * WRITTEN_MIN, mib=WRITTEN_MIB, hold=HOLD
            )  # fmt: skip
            before = f'"{{sample}}.{name}"'
        (folder / "Snakefile").write_text(text)
        shutil.copy(batchcast.client.__file__, folder / "batchcast_client.py")
        (folder / "log").mkdir()
        clock = {k: v for k, v in self.lab.env.items() if k == "LD_PRELOAD" or k.startswith("FAKETIME")}
        (folder / "bin").mkdir()
        for client in ("sbatch", "sacct", "scancel"):
            real = self.lab.place.find(client)
            lines = [f"export {k}='{v}'" for k, v in clock.items()]
            (folder / "bin" / client).write_text("\n".join(["#!/bin/sh", *lines, f'exec {real} "$@"', ""]))
        shutil.copy(STATUS, folder / "bin" / "status")
        (folder / "job.sh").write_text(JOB)
        for path in (folder / "bin").iterdir():
            path.chmod(0o755)

    def jobs(self, name: str) -> list[Asked]:
        """Return the accounting of every job of the run with that name, including failed attempts."""
        fields = "JobName,State,ReqMem,ReqCPUS,TimelimitRaw,Submit,Start,End,Comment"
        environment = {**self.lab.env, "SLURM_TIME_FORMAT": "%s"}
        found = []
        for line in self.lab.run("sacct", "-nXPa", "-S", "now-7days", "-o", fields, env=environment).splitlines():
            rule, state, memory, procs, limit, submit, start, end, comment = line.split("|")
            if comment == name and start.isdigit() and end.isdigit():
                mib = float(memory.rstrip("MGnc")) * (1024 if "G" in memory else 1)
                found.append(
                    Asked(rule, state.split(" ")[0], mib, int(procs), 60 * float(limit), int(start) - int(submit),
                          int(end) - int(start))
                )  # fmt: skip
        return found


def sums(jobs: list[Asked]) -> Mapping[str, float]:
    """Return GiB-hours and core-hours requested (request times limit), GiB-hours used, mean wait, and failed
    attempts."""
    done = [job for job in jobs if job.state == "COMPLETED"]
    return {
        "jobs": len(jobs),
        "failed": len(jobs) - len(done),
        "gib_h_asked": sum(job.mib / 1024 * job.limit_s / 3600 for job in jobs),
        "gib_h_held": sum(job.mib / 1024 * job.run_s / 3600 for job in jobs),
        "core_h_asked": sum(job.procs * job.limit_s / 3600 for job in jobs),
        "mean_wait_min": sum(job.wait_s for job in jobs) / max(len(jobs), 1) / 60,
    }
