"""An operator's day on a real Slurm, as a program: the predicted start times, the real starts, and the cost of
planning.

    flock /tmp/batchcast-lab.lock python tests/slurm/operator_day.py --hours 5 --speed 40 -o day.json

A lab of 16 cores with multifactor priorities, a QOS that preempts and one that is preempted, three partitions, a
drained node and a maintenance. Two users submit arrays, chains, held jobs, jobs with begin times, padded limits,
time-outs, failures and jobs that are cancelled. Before each plain submission its user asks `start --test` and then
submits exactly that job; in between the program asks for all waiting jobs, and for `squeue --start`. In the middle
fifth of the day planning is on (`plan = "both"`), and then it is switched off by `plan --off`.

An answer has an outcome if its job started or its 90 % time has passed, as `batchcast accuracy` counts. In a short day,
the share of jobs that started by their 90 % time is too high: for 90 % times after the end of the day, only jobs that
started count. Therefore the table also has the share over all 90 % times within the day, whether the job has started or
not. Each answer is also compared with the latest start that limits imply: all jobs that run or wait before it run to
their limits, one after the other on the partition's processors. If Slurm's own estimate, which knows nodes, drained
nodes and reservations, is later, Slurm's estimate is used instead.

Clients and daemons share this machine, so at more than 40 times the speed Slurm's clients begin to fail.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import random
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent / "lab"))

from follow import Follower
from slurm_lab import USERS, Lab

from batchcast.errors import BatchcastError
from batchcast.formats.slurm.sbatch import Request, parse_submit_line
from batchcast.service.answers.start import own_queue, with_margin
from batchcast.store.reader import Reader
from batchcast.units import parse_duration

CONF = {
    "PriorityType": "priority/multifactor", "PriorityWeightAge": "1000", "PriorityMaxAge": "1-0",
    "PriorityWeightFairshare": "500", "PriorityWeightQOS": "20000", "PreemptType": "preempt/qos",
    "PreemptMode": "REQUEUE", "OverTimeLimit": "60", "MinJobAge": "300",
    "PartitionName": "short Nodes=n[3-4] MaxTime=1:00:00 DefaultTime=30 State=UP",
    "Partitionname": "long Nodes=n[1-2] MaxTime=7-0 DefaultTime=120 State=UP",
}  # fmt: skip
PROCS = {"main": 16.0, "short": 8.0, "long": 8.0}
TESTED = {"ntasks", "nodes", "time", "partition", "qos"}
"""The options of a plain submission: `start --test` is asked about each submission that has no others."""
Job = Mapping[str, Any]


class Told(NamedTuple):
    """An answer to a user: for which job, at which instant, the likely and the 90 % start, and the latest start that
    the limits of the jobs before it imply (NaN: unknown)."""

    kind: str
    job_id: str
    at: float
    likely: float
    by_90: float
    latest: float = math.nan


class Queue:
    """What `squeue` shows at one instant, and the latest starts that its limits imply."""

    def __init__(self, lab: Lab) -> None:
        self.at = lab.now()
        self.running: list[tuple[float, float]] = []
        self.waiting: dict[str, tuple[float, float, float]] = {}
        for row in lab.run("squeue", "-h", "-r", "-t", "PD,R,CG", "-o", "%i %T %C %l %L %Q").splitlines():
            job, state, procs, limit, left, priority = row.split()
            if state == "PENDING":
                self.waiting[job] = -float(priority), parse_duration(limit), float(procs)
            else:
                rest = parse_duration(left) if left[0].isdigit() else 0.0
                self.running.append((self.at + max(rest, 0.0), float(procs)))
        self.away: dict[str, float] = defaultdict(float)
        for row in lab.run("sinfo", "-h", "-N", "-t", "drain,down,maint", "-o", "%P %c").splitlines():
            partition, cpus = row.split()
            self.away[partition.rstrip("*")] += float(cpus)

    def latest(self, partition: str, procs: float, job: str | None = None) -> float:
        """Return the latest start of a waiting job, or of a job submitted now, which waits behind all others. NaN if it
        needs nodes that are drained.

        Partitions of other jobs are not distinguished: each job counts as if it needs processors of this partition.
        """
        before = sorted(self.waiting.values())
        if job is not None:
            before = [one for one in before if one < self.waiting[job]]
        size = free = PROCS[partition] - self.away[partition]
        if procs > size:
            return math.nan
        held = []
        for end, of in sorted(self.running, reverse=True):  # the jobs that end last occupy the partition's processors
            held.append((end, min(of, free)))
            free -= held[-1][1]
        ahead = [(limit, min(of, size)) for _, limit, of in before]
        start = own_queue([*held, (self.at, free)], ahead, min(procs, size), self.at)
        return start


class Load:
    """The mix of submissions; `submit` sends one of them."""

    def __init__(self, lab: Lab, seed: int) -> None:
        self.lab, self.random = lab, random.Random(seed)
        self.ask_first: Callable[[str, str, Mapping[str, str]], Callable[[str], None]] | None = None
        self.later: list[tuple[float, Callable[[], object]]] = []
        kinds = (
            (self.relax, 22), (self.scan, 8), (self.bands, 5), (self.md, 5), (self.quick, 20), (self.chain, 6),
            (self.cut, 3), (self.fail, 5), (self.scavenger, 3), (self.urgent, 3), (self.begin, 3), (self.held, 3),
            (self.wide, 2),
        )  # fmt: skip
        self.kinds, self.weights = [kind for kind, _ in kinds], [weight for _, weight in kinds]

    def submit(self) -> None:
        """Send one submission of the mix. A client that fails under load does not stop the program."""
        with contextlib.suppress(RuntimeError):
            self.random.choices(self.kinds, self.weights)[0]()

    def due(self) -> None:
        """Carry out the releases and cancellations that are due by now."""
        now = self.lab.now()
        for item in [item for item in self.later if item[0] <= now]:
            self.later.remove(item)
            with contextlib.suppress(RuntimeError):
                item[1]()

    def _sub(self, who: int, least: float, most: float, *options: str, name: str) -> str:
        asked = dict(parse_submit_line(" ".join(("sbatch", *options, "job.sh"))).options)
        asks = self.ask_first is not None and not set(asked) - TESTED
        told = self.ask_first(USERS[who], name, asked) if asks and self.ask_first is not None else None
        job = self.lab.submit(*options, seconds=60 * self.random.uniform(least, most), user=USERS[who], name=name)
        if told is not None:
            told(job)
        return job

    def relax(self) -> None:
        self._sub(0, 8, 12, "-n2", "-t", "60", name="relax")

    def scan(self) -> None:
        self._sub(0, 3, 6, "-n1", "-t", "30", f"--array=1-{self.random.choice([3, 4, 6])}", name="scan")

    def bands(self) -> None:
        self._sub(0, 18, 30, "-N2", "-n6", "-t", "120", name="bands")

    def md(self) -> None:
        self._sub(1, 35, 65, "-N1", "-n4", "-t", "240", "-p", self.random.choice(["long", "main"]), name="md")

    def quick(self) -> None:
        self._sub(1, 1.5, 4, "-n1", "-t", "20", "-p", "short", name="quick")

    def chain(self) -> None:
        first = self._sub(1, 2, 3, "-n1", "-t", "15", name="prep")
        self._sub(1, 12, 25, "-n4", "-t", "90", f"--dependency=afterok:{first}", name="run")

    def cut(self) -> None:
        self._sub(1, 75, 90, "-n1", "-t", "10", name="cut")

    def fail(self) -> None:
        self._sub(0, 0.5, 2, "-n2", "-t", "60", name="broken")

    def scavenger(self) -> None:
        self._sub(1, 20, 40, "-n1", "-t", "180", "-q", "scavenger", "--requeue", "--array=1-2", name="scav")

    def urgent(self) -> None:
        self._sub(0, 5, 10, "-n4", "-t", "30", "-q", "high", name="urgent")

    def begin(self) -> None:
        self._sub(1, 4, 8, "-n2", "-t", "30", f"--begin=now+{self.random.choice([20, 45])}minutes", name="nightly")

    def held(self) -> None:
        job = self._sub(1, 5, 9, "-n2", "-t", "30", "-H", name="held")
        release = self.lab.now() + 60 * self.random.uniform(15, 50)
        self.later.append((release, lambda: self.lab.run("scontrol", "release", job)))

    def wide(self) -> None:
        self._sub(0, 10, 20, "-N3", "-n12", "-t", "60", name="wide")

    def cancel(self) -> None:
        """Cancel one waiting job or task, and plan another cancellation."""
        waiting = self.lab.run("squeue", "-h", "-r", "-t", "PD", "-o", "%i").split()
        if waiting:
            self.lab.run("scancel", self.random.choice(waiting))
        self.later.append((self.lab.now() + 60 * self.random.uniform(15, 30), self.cancel))


class Day:
    """One day: the answers, the calls in each phase, and the priorities while planning was on."""

    def __init__(self, lab: Lab, collector: Follower, hours: float, rate: float, seed: int) -> None:
        self.lab, self.collector, self.hours, self.rate = lab, collector, hours, rate
        self.load = Load(lab, seed)
        self.told: list[Told] = []
        self.calls: dict[str, tuple[int, int]] = {}
        self.lowest = math.inf
        self.worst_factor = 0
        self.restored_s = math.nan
        self.off: list[str] = []
        self.phase, self.counted_from = "before", 0.0
        self.asker = subprocess.Popen(
            [sys.executable, __file__, "--answers"], env=collector.env, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def run(self) -> None:
        """Run the day: a drained node, a maintenance, planning on, `plan --off`, the rest of the day.

        Calls are counted after the maintenance, because jobs that wait for it cause queries of reservations, and from
        15 minutes after planning, because restored limits are read once more.
        """
        lab, begin = self.lab, self.lab.now()
        end = begin + 3600 * self.hours
        maintained = begin + 0.15 * (end - begin)
        self.counted_from = maintained + 1800 + 300
        events = [
            (begin + 300, lambda: self._node("state=drain", "reason=day")),
            (begin + 600, self.load.cancel),
            (begin + 0.08 * (end - begin), lambda: self._maintenance(maintained)),
            (begin + 0.10 * (end - begin), lambda: self._node("state=resume")),
            (begin + 0.47 * (end - begin), lambda: self._plan("both")),
            (begin + 0.67 * (end - begin), lambda: self._plan("off")),
        ]
        submit = ask = begin
        before, phase, cycle = (0, 0), "", 900.0
        while (now := lab.now()) < end:
            while events and events[0][0] <= now:
                events.pop(0)[1]()
            self.load.due()
            if now > begin + 900:
                self.load.ask_first = self._test
            if now >= submit:
                self.load.submit()
                busy = 1.5 if (now - begin) % 10800 < 4300 else 0.6
                submit += self.load.random.expovariate(self.rate * busy / 3600)
                submit = max(submit, now - 300)
            if now >= ask and now > begin + 1800:
                ask = now + 900
                self._ask()
            if now > begin + cycle:
                after = self._calls()
                spent, cycles = self.calls.get(self.phase, (0, 0))
                # a restarted collector counts from 0
                if phase == self.phase and after[0] >= before[0] and now > self.counted_from:
                    self.calls[phase] = spent + after[0] - before[0], cycles + after[1] - before[1]
                before, phase, cycle = after, self.phase, now - begin + 300
            if self.phase == "during":
                self._priorities()
            time.sleep(5 / lab.speed)

    def _node(self, *words: str) -> None:
        self.lab.run("scontrol", "update", "nodename=n3", *words)

    def _maintenance(self, at: float) -> None:
        start = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at))
        self.lab.run("scontrol", "create", "reservation", "reservationname=maint", f"starttime={start}", "duration=30",
                     "user=root", "flags=maint,ignore_jobs", "nodes=n[1-2]")  # fmt: skip

    def _plan(self, how: str) -> None:
        """Switch planning on or off as an operator does: the setting and a restart; to switch it off, first the
        verb."""
        if how == "off":
            begin = self.lab.now()
            try:
                self.off = self.collector.run("plan", "--off").strip().splitlines()[-3:]
            except RuntimeError as error:
                self.off = str(error).splitlines()[:5]
            with contextlib.suppress(TimeoutError):
                self.lab.wait(lambda: not self._factors(), "no factor", 60)
                self.restored_s = self.lab.now() - begin
            if left := self._factors():
                steps = self.collector.run("plan", "--audit", check=False).splitlines()
                self.off += [f"left: {left[:10]}", *[line for line in steps if f" {left[0]} " in f" {line} "][-8:]]
        try:
            self.collector.kill(15)
        except subprocess.TimeoutExpired:  # the collector finishes its cycle first, which takes long on a busy machine
            self.collector.kill(9)
        self.collector.env["BATCHCAST_PLAN"] = how
        self.phase = "after" if how == "off" else "during"
        self.counted_from = self.lab.now() + (900 if how == "off" else 0)
        self.collector.start()

    def _factors(self) -> list[str]:
        """Return the waiting jobs that have a factor set by planning."""
        rows = (row.split() for row in self.lab.run("sprio", "-h", "-o", "%i %S").splitlines())
        return [job for job, factor in rows if int(factor)]

    def _priorities(self) -> None:
        """Record the lowest priority of all waiting jobs so far, and the lowest factor that planning set."""
        with contextlib.suppress(RuntimeError, ValueError):
            for row in self.lab.run("sprio", "-h", "-o", "%i %Y %S").splitlines():
                _, priority, factor = row.split()
                self.lowest, self.worst_factor = min(self.lowest, int(priority)), min(self.worst_factor, int(factor))

    def _calls(self) -> tuple[int, int]:
        """Return the calls since the collector started, and its cycles (lines of its log)."""
        calls = 0
        for row in Reader(self.collector.store).rows("SELECT value FROM meta WHERE name = 'health'"):
            calls = sum(int(daemon["calls"]) for daemon in json.loads(row["value"]).values())
        return calls, self.collector.log.read_text(errors="replace").count(" in the queue, ")

    def _said(self, question: Mapping[str, Any]) -> Any:
        assert self.asker.stdin is not None
        assert self.asker.stdout is not None
        self.asker.stdin.write(json.dumps(question) + "\n")
        self.asker.stdin.flush()
        return json.loads(self.asker.stdout.readline())

    def _test(self, user: str, name: str, options: Mapping[str, str]) -> Callable[[str], None]:
        """Ask `start --test` and `sbatch --test-only`; return a function that records both answers for the job
        submitted next."""
        queue, partition = Queue(self.lab), options.get("partition", "main")
        said = self._said({"test": {"job-name": name, **options}, "user": user})
        words = [f"--{option}={value}" for option, value in options.items()]
        command = ["sbatch", "--test-only", f"--uid={user}", f"--gid={user}", "-J", name, *words, "--wrap", "true"]
        slurm = self.lab._run_raw(command).stderr.decode()
        latest = queue.latest(partition, float(options.get("ntasks", "1")))

        def told(job: str) -> None:
            when = math.nan
            if " start at " in slurm:
                stamp = slurm.split(" start at ")[1].split()[0]
                when = time.mktime(time.strptime(stamp, "%Y-%m-%dT%H:%M:%S"))
            if said:
                likely, by_90 = said["likely_start_s"], said["by_90_start_s"]
                by_limits = max(latest, when)
                self.told.append(Told("start --test", job, queue.at, likely, by_90, by_limits))
            if math.isfinite(when):
                self.told.append(Told("sbatch --test-only", job, queue.at, when, math.nan))

        return told

    def _ask(self) -> None:
        """Record the current answers for all waiting jobs, and Slurm's own estimates."""
        queue = Queue(self.lab)
        for row in self._said({"waiting": True}) or ():
            if row["counts_from"] == "submission" and row["likely_start_s"] is not None:
                job, latest = row["job_id"], math.nan
                if job in queue.waiting:
                    latest = queue.latest(row["partition"], queue.waiting[job][2], job)
                slurm = row["slurm_start_s"] or math.nan
                latest = max(latest, slurm)  # NaN stays NaN, and then the answer is not compared
                self.told.append(Told("renewed", job, queue.at, row["likely_start_s"], row["by_90_start_s"], latest))
                if math.isfinite(slurm):
                    self.told.append(Told("squeue --start", job, queue.at, row["slurm_start_s"], math.nan))


def answers() -> None:
    """A process on the lab's clock that answers questions as the service does, one line of JSON each."""
    from batchcast.service.answers.disclosure import Viewer
    from batchcast.service.answers.questions import start_from_store
    from batchcast.service.answers.script import answer_options
    from batchcast.service.settings import load

    settings = load({})
    for line in sys.stdin:
        asked, said = json.loads(line), None
        with contextlib.suppress(BatchcastError):
            if "test" in asked:
                said = answer_options(settings, Request(asked["test"]), Viewer(asked["user"]), time.time()).results[0]
            else:
                said = start_from_store(settings, (), None, Viewer("root", sees_all=True), time.time()).results
        print(json.dumps(said, default=str), flush=True)


def accounted(lab: Lab) -> dict[str, Job]:
    """Return every run by job id: instants of submission, eligibility and start (None: not started), and its state."""
    text = lab.run("sacct", "-a", "-X", "-P", "-n", "-S", "2000-01-01", "--format=JobID,Submit,Eligible,Start,State",
                   env={**lab.env, "SLURM_TIME_FORMAT": "%s"})  # fmt: skip
    found = {}
    for line in text.splitlines():
        name, submit, eligible, start, state = line.split("|")
        numbers = [float(x) if x.replace(".", "").isdigit() else None for x in (submit, eligible, start)]
        found[name] = {"submit": numbers[0], "eligible": numbers[1], "start": numbers[2], "state": state.split()[0]}
    return found


def at_submission(store: str) -> Iterator[tuple[str, Told]]:
    """Yield the predictions for each job at its submission, with the method's name."""
    sql = (
        "SELECT f.method AS method, j.job_id AS job_id, j.submit_time AS at, f.point_s AS point, f.levels AS levels, "
        "f.quantiles_s AS bounds FROM forecasts f JOIN jobs j ON f.row = j.row "
        "WHERE f.kind = 'wait' AND f.moment = 'submit'"
    )
    for row in Reader(store).rows(sql):
        levels, bounds = json.loads(row["levels"]), json.loads(row["bounds"])
        by_90 = bounds[levels.index(0.9)] if 0.9 in levels else math.nan
        at = row["at"]
        yield str(row["method"]), Told(f"submission, {row['method']}", row["job_id"], at, at + row["point"], at + by_90)


def _has_predicted(store: str) -> bool:
    """Return whether the store has a prediction; False until the collector has created the store."""
    with contextlib.suppress(BatchcastError):
        return next(at_submission(store), None) is not None
    return False


def judged(kind: str, told: Sequence[Told], jobs: Mapping[str, Job], now: float) -> dict[str, Any]:
    """Return a row of the table: the number of 90 % times with an outcome and of 90 % times before `now` (`due`), the
    share of jobs that started by them, and errors in minutes.

    `due_low` and `due_high` are the 90 % interval of the second share, over jobs: all answers for a job share its
    start, and the tasks of an array start one after the other, so an array counts as one job.

    `beyond` counts 90 % times later than limits imply, `beyond_margin` those later by more than the product's margin;
    `furthest_min` is the largest excess in minutes (negative: all are earlier). `started_later` counts jobs that
    started later than limits imply, and `started_later_margin` those later by more than the margin: `Queue.latest`
    does not know drained nodes, reservations, whole nodes and later jobs of higher priority.
    """
    errors, worst = [], (0.0, "")
    held: list[bool] = []
    due: dict[str, list[bool]] = defaultdict(list)
    beyond: list[float] = []
    too_far, later = 0, [0, 0]
    for one in told:
        job = jobs.get(one.job_id)
        if one.by_90 == one.by_90 and one.latest == one.latest:
            beyond.append((one.by_90 - one.latest) / 60)
            too_far += one.by_90 > with_margin(one.latest, one.at) + 1
        if job is None or job["state"].startswith("CANCELLED") or (job["eligible"] or 0) > (job["submit"] or 0) + 60:
            continue
        start = job["start"] if job["start"] is None or job["start"] >= one.at - 60 else math.nan
        if one.latest == one.latest and start == start:
            begun = now if start is None else start  # a waiting job starts at `now` at the earliest
            for k, by in enumerate((one.latest, with_margin(one.latest, one.at))):
                later[k] += begun > by + 60
        if start != start or one.likely != one.likely:
            continue
        if start is not None:
            errors.append(abs(start - one.likely))
            worst = max(worst, (errors[-1], one.job_id))
        if one.by_90 == one.by_90:
            in_time = start is not None and start <= one.by_90 + 1
            if start is not None or one.by_90 < now:
                held.append(in_time)
            if one.by_90 < now:
                due[one.job_id.partition("_")[0]].append(in_time)
    low, high = share_interval(list(due.values()))
    return {
        "answers": kind, "judged": len(held) or len(errors), "kept_90": statistics.mean(held) if held else None,
        "due": sum(map(len, due.values())), "due_low": low, "due_high": high,
        "due_kept_90": statistics.mean(held for group in due.values() for held in group) if due else None,
        "median_error_min": statistics.median(errors) / 60 if errors else None,
        "worst_error_min": worst[0] / 60, "worst_job": worst[1],
        "compared": len(beyond), "beyond": sum(by > 0 for by in beyond), "beyond_margin": too_far,
        "furthest_min": max(beyond, default=None), "started_later": later[0], "started_later_margin": later[1],
    }  # fmt: skip


def share_interval(groups: Sequence[Sequence[bool]], seed: int = 1) -> tuple[float | None, float | None]:
    """Return the 90 % interval of the share of true values, by 2,000 resamples of whole groups; None without groups."""
    if not groups:
        return None, None
    draws = random.Random(seed)
    shares = sorted(
        statistics.fmean(held for group in draws.choices(groups, k=len(groups)) for held in group) for _ in range(2000)
    )
    return shares[100], shares[1899]


def measure(hours: float, speed: float, rate: float, seed: int) -> dict[str, Any]:
    """Run a day on a new lab, and return the result."""
    with Lab(nodes=4, cpus=4, speed=speed, conf=CONF) as lab:
        for words in (
            ("add", "qos", "scavenger"), ("add", "qos", "high", "priority=10", "preempt=scavenger"),
            ("modify", "user", f"name={','.join(USERS)}", "set", "qos+=high,scavenger"),
        ):  # fmt: skip
            lab.run("sacctmgr", "-iQ", *words)
        collector = Follower(lab, str(lab.root / "day.db"), interval=30.0, WAIT="forecast,recent_wait,log_uniform",
                             PATIENCE_S="900", HISTORY_EVERY_S="300", MEMORY="", PLAN="off",
                             PLAN_PARTITIONS="main,short,long", PLAN_CALL_S="3600", PLAN_LAG_S="86400")  # fmt: skip
        collector.start()
        for _ in range(2):  # the second job waits, and a start time is predicted for it
            lab.submit("-N4", "--exclusive", "-t", "60", seconds=900)
        lab.wait(lambda: _has_predicted(collector.store), "a first prediction", 600)  # compiling code takes minutes
        day = Day(lab, collector, hours, rate, seed)
        try:
            day.run()
        finally:
            day.asker.kill()
        memory = Path(f"/proc/{collector.process.pid}/status").read_text() if collector.process else ""
        peak = next((int(line.split()[1]) for line in memory.splitlines() if line.startswith("VmHWM")), 0)
        jobs, now = accounted(lab), lab.now()
        by_kind: dict[str, list[Told]] = defaultdict(list)
        for one in day.told:
            by_kind[one.kind].append(one)
        tested = {one.job_id: one.latest for one in by_kind["start --test"]}
        for method, one in at_submission(collector.store):
            by_kind[one.kind].append(one)
            if method == "forecast" and one.job_id in tested:
                latest = tested[one.job_id]
                by_kind["submission, forecast, of the jobs of start --test"].append(one._replace(latest=latest))
        log = collector.log.read_text(errors="replace")
        collector.kill(15)
        started = [job for job in jobs.values() if job["start"] is not None]
        return {
            "version": lab.run("sinfo", "--version").strip(), "hours": hours, "speed": speed, "seed": seed,
            "jobs": len(jobs), "started": len(started),
            "answers": [judged(kind, told, jobs, now) for kind, told in sorted(by_kind.items())],
            "planning": {
                "lowest_priority": day.lowest if math.isfinite(day.lowest) else None,
                "worst_factor": day.worst_factor, "off_said": day.off,
                "factors_restored_s": None if math.isnan(day.restored_s) else round(day.restored_s),
                "calls_a_cycle": {phase: round(n / max(k, 1), 2) for phase, (n, k) in day.calls.items()},
            },
            "memory_mib": round(peak / 1024),
            "problems": [line for line in log.splitlines() if "collect:" in line][:20],
        }  # fmt: skip


def show(day: Mapping[str, Any]) -> str:
    """The day as Markdown."""
    lines = [
        f"{day['version']}, {day['hours']:g} h at {day['speed']:g} times the speed: {day['jobs']} jobs, "
        f"{day['started']} started.",
        "",
        "| answers | with an outcome | 90 % times held | due that day | held | median error, min | worst error, min |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in day["answers"]:
        kept, due, low, high = (
            "-" if row[key] is None else f"{row[key]:.0%}" for key in ("kept_90", "due_kept_90", "due_low", "due_high")
        )
        due = due if due == "-" else f"{due} ({low} to {high})"
        middle = "-" if row["median_error_min"] is None else f"{row['median_error_min']:.1f}"
        numbers = row["answers"], row["judged"], kept, row["due"], due
        cells = *numbers, middle, f"{row['worst_error_min']:.0f}"
        lines.append(f"| {' | '.join(map(str, cells))} |")
    planning = day["planning"]
    lines += [
        "",
        "| 90 % times | compared | later than limits imply | also later than the margin | furthest, min "
        "| started later (than the margin) |",
        "|---|---|---|---|---|---|",
    ]
    for row in day["answers"]:
        if row["compared"]:
            cells = row["answers"], row["compared"], row["beyond"], row["beyond_margin"], f"{row['furthest_min']:.0f}"
            cells = *cells, f"{row['started_later']} ({row['started_later_margin']})"
            lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += [
        "",
        "| planning | |",
        "|---|---|",
        f"| lowest priority of a waiting job | {planning['lowest_priority']} |",
        f"| lowest factor that was set | {planning['worst_factor']} |",
        f"| no factor left after `plan --off`, s | {planning['factors_restored_s']} |",
        *(f"| calls a cycle {phase} planning | {calls:g} |" for phase, calls in planning["calls_a_cycle"].items()),
        f"| memory of the collector, MiB | {day['memory_mib']} |",
    ]
    return "\n".join(lines)


def main() -> None:
    """Print the day and its table, and with `-o` write its figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=5.0, help="lab hours")
    parser.add_argument("--speed", type=float, default=40.0)
    parser.add_argument("--rate", type=float, default=42.0, help="submissions an hour")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--answers", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.answers:
        return answers()
    day = measure(given.hours, given.speed, given.rate, given.seed)
    if given.output:
        given.output.write_text(json.dumps(day, indent=1) + "\n")
    print(show(day))
    return None


if __name__ == "__main__":
    main()
