"""One run of planning under faults: the jobs of a lab, which daemon is killed or disk is filled when, and the
result."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from follow import BATCHCAST, Follower
from planning_lab import (
    CONF,
    MINUTE,
    OVER,
    SPEED,
    Asked,
    Ran,
    accounted,
    agent,
    factors,
    kill,
    lab_with_script,
    limits_now,
    of_kind,
    steps,
    told,
)
from slurm_lab import USERS, Lab

from batchcast.store.reader import Reader
from batchcast.units import format_duration

KINDS = ("agent", "slurmctld", "disk", "slurmdbd", "agent", "slurmctld", "service")
NOBODY = "none"
SCRIPT = """#!/bin/sh
echo begin >>{log}
sleep {seconds:g}
echo end >>{log}
"""


class Run(NamedTuple):
    """Settings of a run: `kinds` of faults, which take turns in an order drawn from the seed; `mode`: the setting
    `plan`; `at_start`: with the script that restores limits when jobs start."""

    seed: int
    forecasts: str
    jobs: int
    kills: int
    kinds: tuple[str, ...] = KINDS
    mode: str = "plan"
    at_start: bool = False

    @property
    def ordered(self) -> bool:
        """Return whether planning also sets factors."""
        return self.mode in ("order", "both") and self.forecasts != NOBODY


class Fire:
    """One run on a lab: the jobs and their outcomes, the collector, the service, and the faults."""

    def __init__(self, lab: Lab, run: Run, disk: Path, listed: Path) -> None:
        self.lab, self.run, self.disk = lab, run, disk
        self.workload = np.random.default_rng([run.seed, 0])
        self.rng = np.random.default_rng([run.seed, 1])
        self.asked: dict[str, Asked] = {}
        self.hit: Counter[str] = Counter()
        self.unrecorded: set[str] = set()
        self.held: set[str] = set()
        self.stood: Counter[str] = Counter()
        self.planned_while_full = self.full_felt = 0
        self.strange: set[tuple[str, int]] = set()
        self.left: dict[str, int] = {}
        self.logs = lab.root / "jobs"
        self.logs.mkdir()
        self.logs.chmod(0o777)
        self.agent: Follower | None = None
        self.service: subprocess.Popen[bytes] | None = None
        if run.forecasts != NOBODY:
            name = "hasty:Uneven" if run.ordered else "hasty:Hasty"
            # a low quantile: otherwise the watchdog stops planning, because outcomes do not fit the predictions
            hasty = {"RUNTIME": name, "PLAN_LENGTH_QUANTILE": "0.01"}
            settings = hasty if run.forecasts == "hasty" else {"RUNTIME": run.forecasts}
            settings["PLAN_AGE_S"] = "1800"  # seconds of the fast clock: waiting jobs pass it while other jobs arrive
            settings["PLAN"] = run.mode
            settings["PLAN_LIST"] = str(listed) if run.at_start else ""
            self.agent = agent(lab, "fire", str(disk / "store.db"), interval=60.0, **settings)

    def __call__(self) -> dict[str, Any]:
        """Submit jobs in five waves, the largest first, each with its share of the kills; then return the result."""
        kinds = self.rng.permutation([self.run.kinds[k % len(self.run.kinds)] for k in range(self.run.kills)])
        if self.agent is not None:
            self.agent.start()
            self.lab.wait(lambda: Path(self.agent.store).exists(), "a store")
            self.serve()
        waves = 5
        for wave in range(waves):
            self.submit(self.run.jobs * (wave + 2) // (waves + 1) - len(self.asked))
            for kind in kinds[len(kinds) * wave // waves : len(kinds) * (wave + 1) // waves]:
                self.moment()
                getattr(self, f"hit_{kind}")()
                self.hit[kind] += 1
                self.look()
        if self.run.ordered:
            self.give_back()
        self.lab.wait(self.all_over, "ended jobs", 900)
        if self.agent is not None:
            self.lab.wait(self.settled, f"the end of every planned job\n{self.agent.tail()}", 120)
            self.agent.kill(signal.SIGTERM)
        if self.service is not None:
            self.service.terminate()
            self.service.wait(30)
        return self.outcome()

    # -- the jobs -----------------------------------------------------------------------------------------------

    def submit(self, count: int) -> None:
        """Submit jobs with padded limits; every tenth job needs nearly all of its limit, every twentieth needs more.

        The eight kinds of jobs have a name each, so that an ordinary predictor learns them.
        """
        for _ in range(count):
            k, kind = len(self.asked), int(self.workload.integers(8))
            limit = 20 + kind % 4 + int(self.workload.integers(3))
            runs = float(2.0 + 0.4 * kind + self.workload.uniform(0.0, 1.0))
            runs = 90.0 if k % 20 == 7 else limit * float(self.workload.uniform(0.85, 0.97)) if k % 10 == 3 else runs
            one = Asked(limit, runs, str(self.workload.choice(["main", "main", "short", "exact"])))
            self.asked[self._sbatch(one, kind, int(self.workload.integers(2, 5)))] = one

    def _sbatch(self, one: Asked, kind: int, tasks: int) -> str:
        path, user = self.lab.root / "job.sh", USERS[kind % 2]
        path.write_text(SCRIPT.format(log=f"{self.logs}/$SLURM_JOB_ID", seconds=one.runs * MINUTE))
        words = ["sbatch", "--parsable", f"--uid={user}", f"--gid={user}", "--chdir=/tmp", "-o", "/dev/null"]
        words += ["-J", f"kind{kind}", "-n", str(tasks), "-t", str(one.limit), "-p", one.partition, str(path)]
        return str(self.lab.run(*words)).strip().split(";")[0]

    # -- faults -------------------------------------------------------------------------------------------------

    def moment(self) -> None:
        """Wait for a random moment (from the seed) after the next step of planning, or for five seconds if there is
        none.

        Without batchcast, wait for the next start of a job, because most planning steps restore the limit of a job that
        has just started.
        """
        before, last = self.seen(), time.monotonic() + 5
        self.lab.wait(lambda: bool(self.seen() - before) or time.monotonic() > last, "a step")
        time.sleep(float(self.rng.uniform(0.0, 1.5)))

    def seen(self) -> set[object]:
        """Return the steps of planning so far; without batchcast, the running jobs."""
        if self.agent is not None:
            return {step["id"] for step in steps(self.agent)}
        return set(self.lab.run("squeue", "-h", "-t", "R", "-o", "%i").split())

    def hit_agent(self) -> None:
        if self.agent is not None:
            self.agent.kill()
            self.agent.start()

    def hit_service(self) -> None:
        if self.service is not None:
            self.service.kill()
            self.service.wait()
            self.serve()

    def hit_slurmctld(self) -> None:
        kill(self.lab, "slurmctld")
        self.lab.start_slurmctld()

    def hit_slurmdbd(self) -> None:
        kill(self.lab, "slurmdbd")
        self.lab.start_slurmdbd()

    def hit_disk(self) -> None:
        """Fill the disk, record whether planning sets new limits or leaves planned limits, and free the disk.

        Every second time the collector is killed meanwhile and restarted on the full disk.
        """
        if self.agent is None:
            return
        with contextlib.suppress(sqlite3.Error), sqlite3.connect(self.agent.store) as store:
            # otherwise SQLite's write-ahead log may still have room for a long time
            store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        ballast = self.disk / "ballast"
        with ballast.open("wb", buffering=0) as out:
            for size in (int(self.rng.integers(4096, 262144)), 512, 1):
                with contextlib.suppress(OSError):
                    while True:
                        out.write(b"x" * size)
        before, felt, anew = of_kind(self.agent, "planned"), self.felt(), self.hit["disk"] % 2 == 1
        if anew:
            self.hit_agent()
        with contextlib.suppress(TimeoutError):
            self.lab.wait(lambda: self.felt() > felt and not self.standing(), "limits given back", 20)
        self.full_felt += int(self.felt() > felt)
        self.stood["anew" if anew else "full"] += len(self.standing())
        ballast.unlink()
        self.planned_while_full += len(of_kind(self.agent, "planned") - before)
        if self.agent.process is not None and self.agent.process.poll() is not None:
            self.agent.start()  # the collector could not start; systemd would retry

    def felt(self) -> int:
        """Return how often the collector logged that the disk is full."""
        assert self.agent is not None
        return int(self.agent.log.read_text(errors="replace").count("is full"))

    def serve(self) -> None:
        """Start the service, answering on its socket, on the real clock, because its deadlines count real time."""
        assert self.agent is not None
        path = self.lab.root / "answers.sock"
        with (self.lab.root / "log" / "serve.log").open("ab") as log:
            self.service = subprocess.Popen(
                [*BATCHCAST, "serve", "--listen", str(path)], env=_real(self.agent.env), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log,
            )  # fmt: skip
        self.lab.wait(lambda: _answers(path), f"answer of the service\n{self.lab.tail('serve')}")

    def all_over(self) -> bool:
        """Return whether every job has ended. Jobs that Slurm holds because their launch failed are released, as an
        operator would."""
        rows = self.lab.run("squeue", "-h", "-t", "PD,R,CG,S", "-o", "%i %r").splitlines()
        held = [row.split(" ")[0] for row in rows if "launch failed" in row]
        if held:
            self.held |= set(held)
            self.lab.run("scontrol", "update", "nodename=ALL", "state=resume", check=False)
            self.lab.run("scontrol", "release", ",".join(held), check=False)
        return not rows

    # -- checks -------------------------------------------------------------------------------------------------

    def standing(self) -> dict[str, float]:
        """Return waiting and running jobs whose limit in slurmctld differs from their user's limit."""
        return {i: now for i, now in limits_now(self.lab).items() if i in self.asked and now != self.asked[i].limit}

    def look(self) -> None:
        """Check that the store has an entry for each limit that is not its user's."""
        if self.agent is not None:
            rows = Reader(self.agent.store).rows("SELECT job_id, planned FROM planned")
            record = {str(row["job_id"]): float(row["planned"]) / MINUTE for row in rows}
            # accounting may show any limit down to the planned one for a job that starts at that moment
            low = self.run.mode == "time-min"
            self.unrecorded |= {
                i
                for i, now in self.standing().items()
                if i not in record or not (record[i] == now or (low and record[i] < now))
            }

            if self.run.ordered:
                shown = factors(self.lab)
                asked = {(s["job_id"], s["limit_to"]) for s in steps(self.agent) if s["what"] == "order sets"}
                self.strange |= {(i, now) for i, now in shown.items() if (i, now) not in asked}

    def give_back(self) -> None:
        """Run `plan --off` beside the collector while jobs still wait, and record the remaining factors."""
        assert self.agent is not None
        self.submit(10)  # so that there are factors to restore
        self.lab.wait(lambda: factors(self.lab), "factors to give back", 120)
        self.agent.run("plan", "--off")
        self.left = factors(self.lab)

    def settled(self) -> bool:
        """Return whether no job's entry in the store still has a planned limit."""
        assert self.agent is not None
        rows = Reader(self.agent.store).rows("SELECT state FROM planned")
        return not {str(row["state"]) for row in rows} & {"intended", "planned", "restoring"}

    def outcome(self) -> dict[str, Any]:
        """Return the counts of one run; a job's own output (`end`) takes precedence over accounting."""
        ran = accounted(self.lab)
        words = {i: self._words(i) for i in self.asked}
        early = [i for i in self.asked if "end" not in words[i] and _cut(self.asked[i], ran.get(i))]
        lost = [i for i in self.asked if "end" not in words[i] and not _ended_by_limit(ran.get(i))]
        again = self.lab.run("sacct", "-XnPaD", "--starttime=2000-01-01", "--format=JobID").split()
        twice = {i for i in self.asked if words[i].count("begin") > 1 or again.count(i) > 1}
        found: dict[str, Any] = {
            **self.run._asdict(), "hit": dict(self.hit), "early": len(early), "lost": len(lost), "doubled": len(twice),
            "launch_failed": len(self.held),
            "states": dict(Counter(ran[i].state if i in ran else "unknown" for i in self.asked)),
            "accounting_differs": sum(i in ran and ran[i].limit != one.limit for i, one in self.asked.items()),
            "details": [f"{i} {self.asked[i]} {ran.get(i)} {words[i]}" for i in {*early, *lost, *twice}],
        }  # fmt: skip
        if self.agent is None:
            return found
        planned, restored, done = of_kind(self.agent, "planned"), of_kind(self.agent, "restored"), steps(self.agent)
        last = {s["job_id"]: s["what"] for s in done if s["what"] in ("planned", "restored")}
        # `settled` has checked that these jobs have no entry
        over = {i for i, what in last.items() if what == "planned"}
        rows = Reader(self.agent.store).rows(
            "SELECT job_id, count(*) AS n FROM jobs GROUP BY job_id, submit_time HAVING n > 1"
        )
        off = {i for i, one in self.asked.items() if i in ran and ran[i].limit != one.limit}
        words = told(self.lab)
        silent = {i for i in off if f"limit={format_duration(self.asked[i].limit * MINUTE)}," not in words.get(i, "")}
        return found | {
            "accounting_planned": len(off), "accounting_silent": len(silent),
            "planned": len(planned), "restored": len(restored), "over_before_look": len(over),
            "accounting_differs": len(off - over), "doubled_in_store": len(rows), "unrecorded": len(self.unrecorded),
            "stood_while_full": self.stood["full"], "stood_started_anew": self.stood["anew"],
            "full_felt": self.full_felt, "planned_while_full": self.planned_while_full,
            "foreign": len(of_kind(self.agent, "foreign")),
            "least_margin_min": min((_margin(s, self.asked) for s in done if s["job_id"] in self.asked
                                     and not str(s["what"]).startswith("order")), default=None),
            "factors": sum(s["what"] == "order sets" for s in done), "factors_unrecorded": len(self.strange),
            "factors_left": len(self.left),
        }  # fmt: skip

    def _words(self, job_id: str) -> list[str]:
        path = self.logs / job_id
        return path.read_text().split() if path.exists() else []


def _margin(step: Mapping[str, object], asked: Mapping[str, Asked]) -> float:
    """Return by how many minutes the limit that a step sets lies above the lowest limit that the invariant allows."""
    one = asked[str(step["job_id"])]
    return float(str(step["limit_to"])) / MINUTE - one.limit + float(OVER[one.partition])


def _real(environment: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in environment.items() if k != "LD_PRELOAD" and not k.startswith("FAKETIME")}


def _cut(one: Asked, ran: Ran | None) -> bool:
    """Return whether a job that did not end by itself was ended by its limit before its user's limit."""
    return ran is not None and ran.state == "TIMEOUT" and ran.ran < one.limit


def _ended_by_limit(ran: Ran | None) -> bool:
    return ran is not None and ran.state == "TIMEOUT"


def _answers(path: Path) -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as one:
        one.settimeout(60.0 * SPEED)
        one.connect(str(path))
        one.sendall(b"GET /v1/health HTTP/1.0\r\n\r\n")
        return one.recv(12).endswith(b"200")
    return False


@contextlib.contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    """A file system of 24 MB in memory; RuntimeError if mounting is not allowed."""
    place.mkdir(parents=True)
    words = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"a small file system cannot be mounted here: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False, capture_output=True)


def carry_out(run: Run, keep: Path | None = None) -> dict[str, Any]:
    """Do one run on a new lab; the lab's logs are copied to `keep`."""
    with contextlib.ExitStack() as opened:
        place = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        place.chmod(0o755)
        conf = {**CONF, "PriorityType": "priority/multifactor"} if run.ordered else CONF
        plain = Lab(nodes=4, cpus=4, speed=SPEED, conf=conf)
        lab = opened.enter_context(lab_with_script(place) if run.at_start else plain)
        disk = opened.enter_context(small_disk(lab.root / "disk"))
        fire, began = Fire(lab, run, disk, place / "planned"), time.monotonic()
        try:
            return fire() | {"seconds": round(time.monotonic() - began)}
        finally:
            if fire.agent is not None:
                fire.agent.kill()
            if fire.service is not None:
                fire.service.kill()
            if keep is not None:
                shutil.copytree(lab.root / "log", keep, dirs_exist_ok=True)
                for path in disk.glob("store.db*"):
                    shutil.copy(path, keep)
