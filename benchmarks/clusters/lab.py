"""On which of three real Slurm clusters is a job done first? Compares ways to choose a cluster, with the same jobs.

    python -m benchmarks.clusters.lab --seeds 1,2,3 --jobs 300 -o clusters.jsonl

Alpha, beta and gamma are real Slurms of unequal size and load on one clock, `--speed` times as fast as the real one.
Each has four users who repeat jobs; two thirds of them request the default limit of 4 h, as half of the jobs of the log
GWU-2019 do. A third of the bursts may run on any cluster; the others run on their home cluster. Some of these free jobs
read files that are on the home cluster, and some have a deadline. An arm is a way to choose a cluster for the free
jobs:

home      | the user's home cluster
random    | any cluster with the same probability
loaded    | the cluster whose running and waiting jobs request the fewest processor-seconds per processor (squeue)
slurm     | the cluster with the earliest start by `sbatch --test-only`, which `sbatch -M` compares too
race      | all clusters; when one submission starts, the others are cancelled
batchcast | the best offer of `batchcast submit`, which uses the outcomes of that user's earlier submissions

A job that is sent to another cluster than its files begins after their transfer. The output file has one line per run;
a run whose line is already there is skipped. A run takes five to ten minutes on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import secrets
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from planning_gain import DEFAULT, Person, job_of, job_row, remember, show
from planning_lab import agent
from slurm_lab import USERS, Lab, missing

from batchcast import Trace
from batchcast.clusters.configured import Cluster, Configured, Input
from batchcast.clusters.finish import LEVELS
from batchcast.clusters.offers import Question, offers
from batchcast.clusters.outcomes import learn_outcomes
from batchcast.errors import BatchcastError
from batchcast.machines.machine import homogeneous
from batchcast.metrics.paired import paired_differences
from batchcast.service.answers.disclosure import Viewer
from batchcast.service.settings import load
from batchcast.simulation.on_nodes import simulate_on
from batchcast.store.ledger import SUBMITTED, Entry, Ledger

CPUS = 8
SIZES = {"alpha": 2, "beta": 4, "gamma": 2}
"""Nodes of each cluster."""
LOADS = {"alpha": 1.7, "beta": 1.1, "gamma": 0.6}
"""Work of each cluster's own users, divided by the work that the cluster can do in the span."""
SPANS, APART = 6, 36 * 3600.0
"""Number of earlier spans of the same load that the collectors know, and seconds from the beginning of one to the
next."""
PEOPLE, FREE, INPUTS, DEADLINES = 4, 1 / 3, 1 / 3, 1 / 3
BANDWIDTH = "50M"
ARMS = ("home", "random", "loaded", "slurm", "race", "batchcast")
INTERVAL = 120.0
SETTINGS = {"bf_interval": "30", "bf_resolution": "60", "sched_interval": "30", "batch_sched_delay": "0"}
SLURM = {"SchedulerParameters": ",".join(["bf_continue", *(f"{name}={value}" for name, value in SETTINGS.items())])}


class Wish(NamedTuple):
    """A job before its submission: seconds after the beginning, user, home cluster, burst, processors, limit (min), run
    time (s), whether it may run anywhere, GiB that it reads, and its deadline (s after submission; NaN: none)."""

    at: float
    who: int
    home: str
    burst: int
    procs: int
    limit: int
    runs: float
    free: bool
    gib: float
    due: float


def people(seed: int, home: str) -> list[Person]:
    """Return the four users of a cluster: sizes from 1 to 12 processors, run times of minutes to half an hour."""
    rng = np.random.default_rng([seed, 7, *home.encode()])
    sizes = rng.permutation([1, 2, 6, 12])
    typical = np.exp(rng.uniform(np.log(200), np.log(1800), PEOPLE))
    whole = rng.permutation([True, True, True, False])
    return [
        Person(int(n), float(run), float(rng.uniform(0.1, 0.4)), float(rng.uniform(1.5, 6.0)), DEFAULT if d else 0)
        for n, run, d in zip(sizes, typical, whole)
    ]


def workload(seed: int, jobs: int, crowd_of: int | None = None) -> list[Wish]:
    """Return the jobs of all clusters over one span, in the order of submission.

    Each cluster's users submit until its load is reached; the span is as long as `jobs` jobs need. `crowd_of` is the
    seed that draws the users, by default `seed`.
    """
    drawn: list[tuple[float, Wish]] = []
    for base, home in enumerate(SIZES):
        rng, spans = np.random.default_rng([seed, 11, base]), 0.0
        crowd = people(seed if crowd_of is None else crowd_of, home)
        here: list[tuple[float, Wish]] = []
        while len(here) < jobs:
            who, begins, free = int(rng.integers(PEOPLE)), float(rng.uniform()), bool(rng.uniform() < FREE)
            burst = len(here) + 10**6 * base
            for _ in range(int(rng.integers(1, 6))):
                limit, runs = job_of(crowd[who], rng)
                gib = float(rng.uniform(5, 40)) if free and rng.uniform() < INPUTS else 0.0
                due = runs * float(rng.uniform(1.5, 4.0)) if free and rng.uniform() < DEADLINES else math.nan
                procs = crowd[who].procs
                spans += procs * runs / (SIZES[home] * CPUS * LOADS[home])
                here.append((spans, Wish(begins, base * PEOPLE + who, home, burst, procs, limit, runs, free, gib, due)))
        drawn += here
    drawn = sorted(drawn)[:jobs]
    span, seen = drawn[-1][0], dict.fromkeys((wish.burst for _, wish in drawn), 0)
    wishes = []
    for _, wish in drawn:
        wishes.append(wish._replace(at=wish.at * span + 20.0 * seen[wish.burst]))
        seen[wish.burst] += 1
    return sorted(wishes)


def earlier(seed: int, jobs: int, home: str, now: float) -> list[dict[str, Any]]:
    """Return the jobs that a cluster's users ran earlier: periods of the same load, one every `APART` seconds.

    A simulation of Slurm's two loops on this cluster's nodes gives each start, so the collectors know from the first
    cycle on how long jobs wait here. A pool of processors with EASY would not suffice: Slurm's backfill reserves whole
    nodes, so the small jobs of the real clusters wait two to ten times as long as in such a pool.
    """
    machine = homogeneous(SIZES[home], CPUS, **SETTINGS)
    rows: list[dict[str, Any]] = []
    for k in range(SPANS, 0, -1):
        wishes = [one for one in workload(seed + 1000 * k, jobs, seed) if one.home == home]
        if not wishes:
            continue
        columns = {
            "submit_time": [one.at for one in wishes], "run_time": [one.runs for one in wishes],
            "req_procs": [one.procs for one in wishes], "req_time": [60.0 * one.limit for one in wishes],
        }  # fmt: skip
        plan = simulate_on(machine, Trace.from_arrays(columns))
        for one, start in zip(wishes, plan.start_time):
            submit = now - k * APART + one.at
            wait = float(start) - one.at
            row = job_row(submit, wait, one.runs, one.procs, one.limit, one.who % PEOPLE)
            rows.append({**row, "job_name": f"person{one.who}"})
    return rows


class _Sibling(Lab):
    """A lab on another lab's clock, so that instants of both can be compared."""

    first: Lab | None = None

    def _start_clock(self) -> None:
        if self.first is None:
            super()._start_clock()
        else:
            names = [name for name in self.first.env if name == "LD_PRELOAD" or name.startswith("FAKETIME")]
            self.env |= {name: self.first.env[name] for name in names}


@contextmanager
def clusters(speed: float) -> Iterator[dict[str, Lab]]:
    """The three Slurms, running."""
    with ExitStack() as stack:
        labs: dict[str, Lab] = {}
        for name, nodes in SIZES.items():
            lab = _Sibling(nodes=nodes, cpus=CPUS, speed=speed, conf={"ClusterName": name, **SLURM})
            lab.first = next(iter(labs.values()), None)
            labs[name] = stack.enter_context(lab)
        yield labs


class Chooser:
    """The ways to choose a cluster, with running labs and their collectors' stores."""

    def __init__(self, seed: int, labs: Mapping[str, Lab], stores: Mapping[str, str]) -> None:
        self.rng, self.labs = np.random.default_rng([seed, 13]), labs
        self.tables = {
            name: Cluster(name=name, store=stores[name], place=name, bandwidth=dict.fromkeys(SIZES, BANDWIDTH))
            for name in labs
        }
        self.settings = load({}, {"BATCHCAST_CONFIG": "/dev/null"})
        self.told: list[dict[str, Any]] = []
        folder = Path(next(iter(stores.values()))).parent
        self.ledgers = {user: Ledger(folder / f"{user}.db") for user in USERS}

    def transfer_s(self, wish: Wish, name: str) -> float:
        """Return how long copying the job's files to that cluster takes."""
        return self.tables[name].transfer_s([Input(wish.gib * 1024**2, wish.home)])

    def random(self, wish: Wish) -> str:
        return str(self.rng.choice(list(self.labs)))

    def loaded(self, wish: Wish) -> str:
        ahead = {name: _limits(lab) / (SIZES[name] * CPUS) for name, lab in self.labs.items()}
        return min(ahead, key=lambda name: (ahead[name], name != wish.home))

    def slurm(self, wish: Wish) -> str:
        starts = {name: _test_only(lab, wish) for name, lab in self.labs.items()}
        return min(starts, key=lambda name: (starts[name], name != wish.home))

    def batchcast(self, wish: Wish) -> str:
        """Return the cluster of the best offer, by expected end or by the probability to meet the deadline; the home
        cluster if there is no offer."""
        now = self.labs[wish.home].now()
        home_first = [self.tables[wish.home], *(one for name, one in self.tables.items() if name != wish.home)]
        options = {"ntasks": str(wish.procs), "time": str(wish.limit), "job-name": f"person{wish.who}"}
        by = None if math.isnan(wish.due) else now + wish.due
        ledger = self.ledgers[USERS[wish.who % 2]]
        learn_outcomes(ledger, self.tables)
        lateness = {name: ledger.lateness(name, now) for name in LEVELS}
        files = [Input(wish.gib * 1024**2, wish.home)]
        question = Question(options, files, by, sent=ledger.sent_since(now - 3600.0), lateness=lateness)
        try:
            viewer = Viewer(USERS[wish.who % 2])
            self.told, _ = offers(Configured(home_first, []), self.settings, question, viewer, now)
        except BatchcastError as error:
            print(f"no offer: {error.message}", file=sys.stderr)
            return wish.home
        return str(self.told[0]["cluster"])

    def remember(self, wish: Wish, asked: float, name: str, job: str) -> None:
        """Record a submission by offer in its user's ledger."""
        entry = Entry(secrets.token_hex(8), None, asked, "", "", name, [], self.told, SUBMITTED, job)
        self.ledgers[USERS[wish.who % 2]].add(entry)


def _limits(lab: Lab) -> float:
    """Return the processor-seconds that the running and waiting jobs of a cluster request by their limits."""
    rows = lab.run("squeue", "-hr", "-t", "PD,R,CG", "-o", "%C|%l").splitlines()
    return sum(float(cpus) * _seconds(limit) for cpus, limit in (row.split("|") for row in rows))


def _seconds(text: str) -> float:
    days, _, rest = text.rpartition("-")
    return float(days or 0) * 86400 + sum(float(x) * 60.0**k for k, x in enumerate(reversed(rest.split(":"))))


def _test_only(lab: Lab, wish: Wish) -> float:
    """Return the start that slurmctld estimates for the job, which `sbatch -M` compares; infinity if it estimates
    none."""
    words = ["sbatch", "--test-only", "-n", str(wish.procs), "-t", str(wish.limit), "--wrap", "true"]
    said = lab._run_raw(words).stderr.decode()
    found = re.search(r"to start at (\S+) using", said)
    if found is None:
        return math.inf
    return float(lab.run("date", "-d", found[1], "+%s"))


def measure(seed: int, jobs: int, speed: float, arm: str) -> dict[str, Any]:
    """One arm: its jobs, the cluster of each, and the outcomes."""
    wishes = workload(seed, jobs)
    with clusters(speed) as labs:
        stores, agents = {}, []
        for name, lab in labs.items():
            follower = agent(
                lab, name, interval=INTERVAL, RUNTIME="kernel,calibrated", WAIT="forecast,recent_wait", MEMORY="",
                PLAN="off", TIMEOUT_S=str(15 * speed), SETTLE_S=str(speed / 2), HISTORY_DAYS="0.01",
            )  # fmt: skip
            now = lab.now()
            remember(follower.store, earlier(seed, jobs, name, now), now, name)
            follower.start()
            stores[name] = follower.store
            agents.append(follower)
        for (name, lab), follower in zip(labs.items(), agents):
            lab.wait(follower.has_looked, f"a first look at {name}", 600)
        chooser, sent = Chooser(seed, labs, stores), []
        racing: list[dict[str, str]] = []
        began = labs["alpha"].now()
        for wish in wishes:
            while (ahead := (began + wish.at - labs["alpha"].now()) / speed) > 0:
                _end_races(labs, racing)
                time.sleep(min(ahead, 0.5))
            sent.append(_send(arm, wish, chooser, labs, racing))
        for lab in labs.values():
            lab.wait(lambda lab=lab: _is_empty(lab, labs, racing), "ended jobs", 1800)
        ended = {name: _ended(lab, {one["ids"].get(name) for one in sent}) for name, lab in labs.items()}
        for follower in agents:
            follower.kill(15)
    return {"seed": seed, "jobs": jobs, "speed": speed, "arm": arm, "rows": [_outcome(one, ended) for one in sent]}


def _send(
    arm: str, wish: Wish, chooser: Chooser, labs: Mapping[str, Lab], racing: list[dict[str, str]]
) -> dict[str, Any]:
    """Choose a cluster and submit; a race submits to every cluster."""
    chooser.told = []
    asked = labs[wish.home].now()
    if not wish.free or arm == "home":
        names = [wish.home]
    elif arm == "race":
        names = list(labs)
    else:
        names = [getattr(chooser, arm)(wish)]
    ids = {}
    for name in names:
        options = ["-n", str(wish.procs), "-t", str(wish.limit)]
        if (later := chooser.transfer_s(wish, name)) > 0:
            options.append(f"--begin=now+{math.ceil(later)}")
        user = USERS[wish.who % 2]
        ids[name] = labs[name].submit(*options, seconds=wish.runs, user=user, name=f"person{wish.who}")
    if len(ids) > 1:
        racing.append(dict(ids))
    told = {}
    if chooser.told:
        chooser.remember(wish, asked, *next(iter(ids.items())))
        named = ("by_90_end_s", "likely_end_s", "by_90_end_s_factor")
        told = {name.replace("end_s", "end"): chooser.told[0][name] for name in named}
    return {"asked": asked, "ids": ids, **told}


def _is_empty(lab: Lab, labs: Mapping[str, Lab], racing: list[dict[str, str]]) -> bool:
    """Return whether every job of a cluster has ended, once races with a winner are closed."""
    _end_races(labs, racing)
    return not lab.run("squeue", "-h", "-t", "PD,R,CG,S", "-o", "%i").split()


def _end_races(labs: Mapping[str, Lab], racing: list[dict[str, str]]) -> None:
    """Cancel the other submissions of each job that has started somewhere."""
    if not racing:
        return
    states = {name: _states(lab) for name, lab in labs.items()}
    for ids in list(racing):
        won = [name for name, job in ids.items() if states[name].get(job) != "PENDING"]
        if won:
            for name, job in ids.items():
                if name != won[0]:
                    labs[name].run("scancel", job, check=False)
            racing.remove(ids)


def _states(lab: Lab) -> dict[str, str]:
    rows = lab.run("squeue", "-h", "-t", "all", "-o", "%i|%T").splitlines()
    return dict(row.split("|") for row in rows)


def _ended(lab: Lab, ids: set[Any]) -> dict[str, tuple[float, float]]:
    """Return start and end of each job that ran, by id, as soon as accounting has all of them."""
    found: dict[str, tuple[float, float]] = {}

    def there() -> bool:
        words = ("sacct", "-XnPa", "--starttime=2000-01-01", "--format=JobID,Start,End")
        rows = lab.run(*words, env={**lab.env, "SLURM_TIME_FORMAT": "%s"}).splitlines()
        over = {row.split("|")[0]: row.split("|")[1:] for row in rows if row.split("|")[2].isdigit()}
        found.update({i: (float(s), float(e)) for i, (s, e) in over.items() if s.isdigit() and s != e})
        return {one for one in ids if one} <= over.keys()

    lab.wait(there, "the last job in accounting", 600)
    return found


def _outcome(one: dict[str, Any], ended: Mapping[str, Mapping[str, tuple[float, float]]]) -> dict[str, Any]:
    """Return when and where the job started and ended: the first of its submissions that ran."""
    ran = {name: ended[name][job] for name, job in one["ids"].items() if job in ended[name]}
    name = min(ran, key=lambda each: ran[each][0])
    return {**one, "submissions": len(one.pop("ids")), "cluster": name, "start": ran[name][0], "end": ran[name][1]}


def compare(runs: Sequence[dict[str, Any]], arms: Sequence[str], boot: int = 0) -> list[dict[str, Any]]:
    """Return a row for each arm: time of free jobs from submission to end, deadlines met, waits of other jobs; compared
    with the arm `home`."""
    seeds = list(dict.fromkeys(run["seed"] for run in runs))
    wishes = [wish for seed in seeds for wish in workload(seed, runs[0]["jobs"])]
    bursts = np.array([seed * 10**8 + wish.burst for seed in seeds for wish in workload(seed, runs[0]["jobs"])])
    free = np.array([wish.free for wish in wishes])
    due = np.array([wish.due for wish in wishes])
    taken, waits = {}, {}
    rows = []
    for arm in arms:
        jobs = [
            row for seed in seeds for run in runs if (run["seed"], run["arm"]) == (seed, arm) for row in run["rows"]
        ]
        names = ("asked", "start", "end", "by_90_end")
        column = {name: np.array([job.get(name, math.nan) for job in jobs]) for name in names}
        taken[arm] = (column["end"] - column["asked"]) / 60
        waits[arm] = (column["start"] - column["asked"]) / 60
        has_due, has_told = free & ~np.isnan(due), ~np.isnan(column["by_90_end"])
        row: dict[str, Any] = {"arm": arm, "free jobs": int(free.sum()), "mean, min": float(taken[arm][free].mean())}
        row["median, min"] = float(np.median(taken[arm][free]))
        for title, values, which, against in (
            ("shorter than at home, min", taken, free, "home"),
            ("shorter than slurm, min", taken, free, "slurm"),
            ("others wait longer, min", waits, ~free, "home"),
        ):
            row[title] = _difference(values, arm, against, which, bursts, boot, -1 if "shorter" in title else 1)
        row["deadlines met"] = f"{float((taken[arm] * 60 <= due)[has_due].mean()):.0%}"
        held = (column["end"] <= column["by_90_end"])[has_told]
        row["90 % ends held"] = f"{held.mean():.0%} of {len(held)}" if len(held) else "-"
        row["submissions"] = sum(job["submissions"] for job in jobs)
        rows.append(row)
    return rows


def _difference(
    values: Mapping[str, np.ndarray], arm: str, against: str, which: np.ndarray, bursts: np.ndarray, boot: int,
    sign: int,
) -> str:  # fmt: skip
    """Return a paired difference of means with its 90 % interval over bursts, as text."""
    if arm == against or against not in values:
        return "-"
    group = np.unique(bursts[which], return_inverse=True)[1]
    pair = paired_differences(
        sign * values[arm][which][None], sign * values[against][which], group, np.random.default_rng(boot)
    )[0]
    return f"{pair.difference:.1f} ({pair.low:.1f} to {pair.high:.1f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--speed", type=float, default=60.0)
    parser.add_argument("-o", "--output", type=Path, default=Path("clusters.jsonl"))
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # SIGTERM also stops the labs
    if reason := missing(given.speed):
        print(f"clusters.lab: {reason}", file=sys.stderr)
        return 1
    lines = given.output.read_text().splitlines() if given.output.exists() else []
    runs = {_key(one): one for one in map(json.loads, lines)}
    arms = given.arms.split(",")
    for seed in map(int, given.seeds.split(",")):
        for arm in arms:
            asked = (seed, given.jobs, given.speed, arm)
            if asked not in runs:
                runs[asked] = measure(*asked)
                with given.output.open("a") as out:
                    out.write(json.dumps(runs[asked]) + "\n")
    chosen = [runs[seed, given.jobs, given.speed, arm] for seed in map(int, given.seeds.split(",")) for arm in arms]
    print(show(compare(chosen, arms)))
    return 0


def _key(run: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(run[name] for name in ("seed", "jobs", "speed", "arm"))


if __name__ == "__main__":
    sys.exit(main())
