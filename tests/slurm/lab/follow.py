"""Runs a collector beside the lab as a separate process, and checks its store afterwards."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

from slurm_lab import Lab

from batchcast.slurm.client import Slurm
from batchcast.slurm.transport import Answer

BATCHCAST = (sys.executable, "-c", "from batchcast.cli.main import entry; entry()")


class Follower:
    """Runs `batchcast collect` on the lab's clock, with settings that fit the clock's speed."""

    def __init__(self, lab: Lab, store: str, *, interval: float = 30.0, **settings: str) -> None:
        self.lab, self.store = lab, store
        fast = lab.speed
        given = {
            "STORE": store,
            "INTERVAL_S": f"{interval:g}",
            "FLOOR_S": "0",
            "TIMEOUT_S": f"{60 * fast:g}",
            "BACK_OFF_S": f"{fast:g}",
            "LONGEST_BACK_OFF_S": f"{4 * fast:g}",
            "SETTLE_S": f"{2 * fast:g}" if fast != 1 else "2",
            "HISTORY_DAYS": "1",
            "HISTORY_EVERY_S": "600",
            "PATIENCE_S": f"{600 * fast:g}",
            **settings,
        }
        self.env = {
            **lab.outside,
            **{f"BATCHCAST_{k}": v for k, v in given.items()},
            "BATCHCAST_CONFIG": os.devnull,
            "PYTHONUNBUFFERED": "1",
        }
        self.log = lab.root / "log" / "collect.log"
        self.killed = 0
        self.answers = ""
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *words: str) -> None:
        """Start the collector, with additional command-line arguments."""
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                [*BATCHCAST, "collect", *words], env=self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )

    def has_looked(self) -> bool:
        """Return whether the collector has finished a cycle, which its log reports."""
        return " in the queue, " in self.tail()

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Kill the collector, and wait until its process is gone."""
        if self.process is not None:
            self.killed += int(number == signal.SIGKILL and self.process.poll() is None)
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)
            self.process.wait(60)
            self.process = None

    def run(self, *words: str, check: bool = True) -> str:
        """Run a batchcast command with the same settings and return its stdout."""
        done = subprocess.run(
            [*BATCHCAST, *words], env=self.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=300
        )
        if check and done.returncode:
            raise RuntimeError(
                f"batchcast {' '.join(words)}: exit {done.returncode}: {done.stderr.decode()}\n{self.tail()}"
            )
        return done.stdout.decode()

    def tail(self) -> str:
        """Return the end of the collector's log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:]) if self.log.exists() else ""


class LabTransport:
    """Queries the lab's Slurm from the test's own process (real clock), for the true state to compare with."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.extra = {"SLURM_TIME_FORMAT": "%s"}

    def now(self) -> float:
        return self.lab.now()

    def ask(self, command: object) -> Answer:
        words = [word.replace("{mark}", "~truth~") for word in command]
        text = self.lab.run(*words, env={**self.lab.env, **self.extra})
        return Answer(text, "~truth~", self.lab.now())


def truth(lab: Lab) -> dict[tuple[str, float, float], tuple[float | None, float, str]]:
    """Return every job that sacct reports as ended: (job id, submit, start, with -1 for nan) to (start, end, state)."""
    ended = Slurm(LabTransport(lab)).history(lab.now() - 30 * 86400, lab.now() + 60).jobs
    return {
        (s.job_id, s.submit_time, -1.0 if math.isnan(s.start_time) else s.start_time): (
            None if math.isnan(s.start_time) else s.start_time,
            s.end_time,
            s.state.lower(),
        )
        for s in ended
    }


def stored(path: Path | str) -> list[dict[str, object]]:
    """Return every job of the store."""
    from batchcast.store.reader import Reader

    return Reader(str(path)).rows("SELECT * FROM jobs ORDER BY submit_time, row")


def cpu_seconds(lab: Lab) -> float:
    """Return the CPU time that slurmctld has used so far, user and system."""
    pid = int(lab.pid_file("slurmctld").read_text())
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
