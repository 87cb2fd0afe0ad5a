"""Effect of planning with predictions on a real Slurm, compared with the simulated clock.

    python benchmarks/planning_gain.py --seeds 1,2,3 --jobs 300 -o gain.jsonl

Each seed is one workload of users who repeat jobs and pad their limits, on an overloaded lab whose clock runs `--speed`
times as fast, once without and once with planning. The collector runs both times. The predictor starts with a history
of the same users. The output file has one line per run; a run whose line is already there is skipped.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "slurm" / "lab"))

from planning_lab import agent, empty, of_kind, steps
from slurm_lab import USERS, Lab, missing

from batchcast.events.recorded import replay
from batchcast.formats.sighting import Sighting
from batchcast.machines.machine import Machine
from batchcast.metrics.paired import paired_differences
from batchcast.metrics.schedule import bounded_slowdown
from batchcast.planning.order import LENGTH_QUANTILE, ORDER_QUANTILE, OrderRule
from batchcast.planning.record import in_minutes
from batchcast.predict.batched import quantiles_of
from batchcast.predict.registry import make
from batchcast.schedule.slurm.simulate import Lengths, Reorder, Seen, simulate_slurm
from batchcast.simulation.on_nodes import QueueOrder, requests_of
from batchcast.store import clock_jobs, history
from batchcast.store.database import Store
from batchcast.table import Trace
from batchcast.trace.machine_files import DUMPS, machine_of, open_machine, toml_of

NODES, CPUS = 4, 8
PEOPLE = 12
PAST = 40
"""Jobs of each user before the lab begins."""
OVER_TIME = 240
MEMORY_KIB = 4000.0 * 1024
"""Memory of a node of the lab, which Slurm shows for a job that requests none."""
INTERVAL = 60.0
PADDINGS = ("people", "default")
"""How limits are padded: each user has a factor, or two thirds of the users request `DEFAULT` for every job.

In the log GWU-2019, half of all jobs request the default of 4 h, and the median limit is 165 times the run time.
"""
DEFAULT, OF_DEFAULT = 240, 8
BAND = 100_000
"""Band of priority for the order: as much as the lab's age weight."""
CLASSES = (("1 to 2", 1, 2), ("3 to 8", 3, 8), ("9 to 32", 9, 32), ("all", 1, 32))


class Wish(NamedTuple):
    """A job before its submission: seconds after the beginning, user, processors, limit (min) and run time (s)."""

    at: float
    who: int
    procs: int
    limit: int
    runs: float


class Person(NamedTuple):
    """A habit: processors, typical run time (s) and its spread, and the factor by which the request exceeds it.

    `limit` replaces the factor by a fixed limit in minutes; 0: none.
    """

    procs: int
    typical: float
    spread: float
    padding: float
    limit: int = 0


def people(rng: np.random.Generator) -> list[Person]:
    """Draw twelve users: their job sizes, their run times of up to 15 min, and limits of 1.5 to 10 run times."""
    sizes = rng.permutation([1, 1, 2, 2, 4, 4, 4, 8, 8, 12, 16, 24])
    return [
        Person(int(n), float(np.exp(rng.uniform(np.log(150), np.log(1000)))), float(rng.uniform(0.1, 0.4)), float(pad))
        for n, pad in zip(sizes, rng.permutation([1.5, 2, 2, 3, 3, 4, 4, 5, 6, 8, 10, 10]))
    ]


def job_of(person: Person, rng: np.random.Generator) -> tuple[int, float]:
    """Return a limit in minutes, rounded to fives, and a run time below it in seconds."""
    limit = min(math.ceil(person.typical * person.padding / 300) * 5, OVER_TIME)
    runs = float(min(person.typical * rng.lognormal(0.0, person.spread), 0.95 * limit * 60))
    return person.limit or limit, runs


def workload(seed: int, jobs: int, load: float, padding: str = "people") -> tuple[list[Person], list[Wish]]:
    """Return bursts of one user's jobs, with `load` times the work that the machine does in the span.

    The padding changes the limits alone: jobs and run times of one seed are the same under each padding.
    """
    rng = np.random.default_rng([seed, 7])
    crowd = people(rng)
    if padding == "default":
        whose = set(np.random.default_rng([seed, 9]).permutation(PEOPLE)[:OF_DEFAULT].tolist())
        crowd = [one._replace(limit=DEFAULT) if k in whose else one for k, one in enumerate(crowd)]
    drawn: list[tuple[int, int, float]] = []
    while len(drawn) < jobs:
        who = int(rng.integers(PEOPLE))
        drawn += [(who, *job_of(crowd[who], rng)) for _ in range(int(rng.integers(1, 6)))]
    drawn = drawn[:jobs]
    span = sum(crowd[who].procs * runs for who, _, runs in drawn) / (NODES * CPUS) / load
    bursts = np.sort(rng.uniform(0.0, span, jobs))  # all jobs of a burst arrive at the instant of its first job
    wishes: list[Wish] = []
    for k, (who, limit, runs) in enumerate(drawn):
        at = wishes[-1].at + 20.0 if k and drawn[k - 1][0] == who else float(bursts[k])
        wishes.append(Wish(max(at, wishes[-1].at if wishes else 0.0), who, crowd[who].procs, limit, runs))
    return crowd, wishes


def past(crowd: Sequence[Person], seed: int, now: float) -> list[dict[str, Any]]:
    """Return the jobs of these users in the ten days before, as columns of a log without waits."""
    rng = np.random.default_rng([seed, 8])
    rows = []
    for who, person in enumerate(crowd):
        for at in np.sort(rng.uniform(now - 10 * 86400, now - 4 * 3600, PAST)):
            limit, runs = job_of(person, rng)
            rows.append(job_row(float(round(at)), 0.0, float(round(runs)), person.procs, limit, who))
    rows.sort(key=lambda row: row["submit_time"])
    return rows


def job_row(submit: float, wait: float, runs: float, procs: int, limit: int, who: int) -> dict[str, Any]:
    return {
        "submit_time": submit, "wait_time": wait, "run_time": runs, "req_procs": float(procs),
        "req_time": limit * 60.0, "user_id": USERS[who % 2], "job_name": f"person{who}", "partition_id": "main",
        "account": "physics",
    }  # fmt: skip


def _told(rows: Sequence[dict[str, Any]], seen: bool) -> list[dict[str, Any]]:
    """Return the rows with fields that the lab's Slurm shows for a job that it has `seen`, and that the synthetic past
    lacks.

    `kernel` weighs these fields, so jobs of the lab are more similar to each other than to the past.
    """
    return [
        {
            **row,
            "group_id": row["user_id"] if seen else None, "qos": "normal" if seen else None,
            "work_dir": "/tmp" if seen else None, "req_nodes": math.ceil(row["req_procs"] / CPUS) if seen else math.nan,
            "req_mem_kib": MEMORY_KIB if seen else math.nan, "req_gpus": 0.0 if seen else math.nan,
        }
        for row in rows
    ]  # fmt: skip


def _trace(rows: Sequence[dict[str, Any]]) -> Trace:
    return Trace.from_arrays({"job_id": list(range(len(rows))), **{n: [r[n] for r in rows] for n in rows[0]}})


def remember(store: str, rows: Sequence[dict[str, Any]], now: float, cluster: str = "lab") -> None:
    """Write the past to a new store, as if the cluster's accounting had reported it."""
    asked = ("req_procs", "req_time", "user_id", "job_name", "partition_id", "account")
    seen = [
        Sighting(
            str(10**6 + k), str(10**6 + k), row["submit_time"], "COMPLETED",
            start_time=row["submit_time"] + row["wait_time"],
            end_time=row["submit_time"] + row["wait_time"] + row["run_time"], eligible_time=row["submit_time"],
            requested={name: row[name] for name in asked}, allocated={"alloc_procs": row["req_procs"]},
        )
        for k, row in enumerate(rows)
    ]  # fmt: skip
    new = Store(store, create=True)
    with new.begin() as connection:
        history.take_in(connection, cluster, seen, now)
        clock_jobs.write_meta(connection, cluster, history_from=now - 11 * 86400, history_until=now - 60.0)
    new.close()


def measure(
    seed: int, jobs: int, load: float, speed: float, planning: bool, slurm: Mapping[str, str] = {},
    padding: str = "people", **more: str,
) -> dict[str, Any]:  # fmt: skip
    """One run on a new lab: the requested jobs and their outcomes. `slurm` and `more` are settings."""
    crowd, wishes = workload(seed, jobs, load, padding)
    conf = {"OverTimeLimit": str(OVER_TIME), **slurm}
    with Lab(nodes=NODES, cpus=CPUS, speed=speed, conf=conf) as lab:
        collector = agent(
            lab, "gain", interval=INTERVAL, RUNTIME="kernel", PLAN_PARTITIONS="main", MEMORY="",
            TIMEOUT_S=str(15 * speed), SETTLE_S=str(speed / 2), **{"PLAN": "limits" if planning else "off", **more},
        )  # fmt: skip
        now = lab.now()
        remember(collector.store, past(crowd, seed, now), now)
        collector.start()
        lab.wait(collector.has_looked, "a first look", 600)
        machine = toml_of(machine_of({name: lab.run(*words) for name, words in DUMPS.items()}, "the lab"))
        ids, began = [], lab.now()
        for wish in wishes:
            time.sleep(max(0.0, (began + wish.at - lab.now()) / speed))
            options = ("-n", str(wish.procs), "-t", str(wish.limit))
            ids.append(lab.submit(*options, seconds=wish.runs, user=USERS[wish.who % 2], name=f"person{wish.who}"))
        empty(lab, 1800)
        lab.wait(lambda: set(ids) <= _ended(lab).keys(), "the last job in accounting", 600)
        ended = _ended(lab)
        planned = reversed([step for step in steps(collector) if step["what"] == "planned"])
        planned_at = {str(step["job_id"]): float(str(step["at"])) for step in planned}
        ordered = reversed([step for step in steps(collector) if str(step["what"]).startswith("order ")])
        ordered_at = {str(step["job_id"]): float(str(step["at"])) for step in ordered}
        restored = len(of_kind(collector, "restored"))
        log = [line for line in collector.log.read_text().splitlines() if " shown, " not in line]
        collector.kill(15)
        rows = [{**ended[i], "planned_at": planned_at.get(i), "ordered_at": ordered_at.get(i)} for i in ids]
    return {
        "seed": seed, "jobs": jobs, "load": load, "speed": speed, "planned": planning, "now": now, "rows": rows,
        "machine": machine, "limits_planned": len(planned_at), "limits_restored": restored, "log": log[:20],
    }  # fmt: skip


def _ended(lab: Lab) -> dict[str, dict[str, Any]]:
    words = ("sacct", "-XnPa", "--starttime=2000-01-01", "--format=JobID,Submit,Start,End,TimelimitRaw,State")
    rows = (line.split("|") for line in lab.run(*words, env={**lab.env, "SLURM_TIME_FORMAT": "%s"}).splitlines())
    names = ("submit", "start", "end", "limit")
    return {
        r[0]: {**dict(zip(names, map(float, r[1:5]))), "state": r[5]} for r in rows if r[2].isdigit() and r[3].isdigit()
    }


def simulated(
    seed: int, run: dict[str, Any], arms: Sequence[str] = ("none", "limits"), late: float = 0.0,
    unseen: Mapping[str, float] = {},
) -> list[np.ndarray]:  # fmt: skip
    """Return the waits (n,) that the simulated clock gives the recorded jobs on the captured machine, under each arm.

    See `parts` for the words of an arm. A limit is planned `late` seconds after the submission (see `lateness`). Under
    an arm in `unseen`, the order sees a job only from this many seconds after its submission on.
    """
    crowd, wishes = workload(seed, run["jobs"], run["load"], run.get("padding", "people"))
    before = past(crowd, seed, run["now"])
    since = [
        job_row(r["submit"], r["start"] - r["submit"], r["end"] - r["start"], w.procs, w.limit, w.who)
        for r, w in zip(run["rows"], wishes)
    ]
    order = sorted(range(len(since)), key=lambda k: (since[k]["submit_time"], k))
    rows = [*before, *(since[k] for k in order)]
    machine = _machine(run["machine"])
    seen = _trace([*_told(before, False), *_told(rows[len(before) :], True)])
    told = replay(seen, {"it": make("runtime", "kernel")}, total=float(machine.cpus))["it"]
    needs, upper = quantiles_of(told, LENGTH_QUANTILE), quantiles_of(told, ORDER_QUANTILE)
    least = in_minutes(3 * INTERVAL)
    requests, left = requests_of(_trace(rows), machine)  # nodes are chosen by processors alone, as requested
    assert len(requests) == len(rows), left

    def plan(r: Any) -> float:
        need = needs[int(r.key)]
        return r.limit if math.isnan(need) else float(min(in_minutes(max(need, least)), r.limit))

    found = []
    for arm in arms:
        word, within, slurm, band, order_by = parts(arm)
        planned, ordered = word in ("limits", "both"), word in ("order", "both")
        by = upper if order_by == "prediction" else np.full(len(upper), math.nan)
        rule = OrderRule(within, band=band)
        here = replace(machine, settings=machine.settings | slurm)
        bounded = {r.key: rule.length(by[int(r.key)], r.limit) for r in requests}
        reorder = QueueOrder(rule, here, requests, lambda r, of=bounded: of[r.key]) if ordered else None
        if reorder is not None and unseen.get(arm, 0.0) > 0:
            reorder = _not_before(reorder, np.array(sorted(r.submit for r in requests)), unseen[arm])
        lengths = Lengths(plan, restored=True, late=late) if planned else None
        starts = simulate_slurm(here, requests, lengths=lengths, reorder=reorder, lazy=1).starts()
        waits = np.empty(len(since))
        for place, k in enumerate(order, len(before)):
            waits[k] = starts[str(place), -1] - since[k]["submit_time"]
        found.append(waits)
    return found


def _not_before(reorder: Reorder, submits: np.ndarray, late: float) -> Reorder:
    """Return an order like `reorder` that ignores a job until `late` seconds after its submission."""

    def seen_late(seen: Seen) -> tuple[np.ndarray, float]:
        known = submits[seen.positions] <= seen.now - late
        factor, due = seen.factor.copy(), math.inf
        if known.any():
            factor[known], due = reorder(Seen(seen.now, *(column[known] for column in seen[1:-1]), seen.start))
        if not known.all():
            due = min(due, float(submits[seen.positions][~known].min()) + late)
        return factor, due

    return seen_late


def lateness(runs: Sequence[dict[str, Any]], what: str = "planned_at") -> float:
    """Return the median time in seconds after submission at which jobs got a planned limit in these runs; 0 if none
    did.

    With `what` = `ordered_at`: the time at which jobs got their first position in the queue order.

    A cycle of the collector takes a second of the real clock, which is a minute of a lab at 60 times the speed.
    """
    late = [row[what] - row["submit"] for run in runs for row in run["rows"] if row.get(what)]
    return float(np.median(late)) if late else 0.0


def parts(arm: str) -> tuple[str, str, dict[str, str], int, str]:
    """Return the arm's value of `plan`, the group of the order (queue, account, user), additional lines of slurm.conf,
    the band, and the run times that the order uses.

    `order-limits` and `both-limits` order by the users' time limits, without predictions. With `+reserve` Slurm
    reserves processors only for jobs past the age, with `+wide` the band is three times as wide.
    """
    words, *more = arm.split("+")
    plan, _, within = words.partition("/")
    plan, _, by = plan.partition("-")
    band = 3 * BAND if "wide" in more else BAND
    slurm = {"bf_min_prio_reserve": str(band)} if "reserve" in more else {}
    return plan, within or "queue", slurm, band, by or "prediction"


def _bursts(wishes: Sequence[Wish]) -> np.ndarray:
    """Return the burst (n,) of each job: jobs of one user, one right after the other."""
    who = np.array([w.who for w in wishes])
    return np.cumsum(np.r_[0, who[1:] != who[:-1]])


def _machine(text: str) -> Machine:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "machine.toml"
        path.write_text(text)
        return open_machine(path)


def compare(pairs: Sequence[tuple[dict[str, Any], dict[str, Any]]], boot: int = 0) -> list[dict[str, Any]]:
    """Return by size class: mean wait and bounded slowdown without and with planning, their paired difference, and the
    simulated values.

    The interval is over bursts: one user's jobs that arrive together.
    """
    columns: dict[str, list[np.ndarray]] = {}
    for plain, planned in pairs:
        seed = plain["seed"]
        wishes = workload(seed, plain["jobs"], plain["load"])[1]
        runs = np.array([w.runs for w in wishes])
        waits = [np.array([r["start"] - r["submit"] for r in run["rows"]]) for run in (plain, planned)]
        waits += simulated(seed, plain, late=lateness([planned]))
        values = {"procs": np.array([w.procs for w in wishes]), "group": seed * 10**6 + _bursts(wishes)}
        for name, wait in zip(("lab_without", "lab_with", "sim_without", "sim_with"), waits):
            values |= {f"wait {name}": wait / 60.0, f"slowdown {name}": bounded_slowdown(wait, runs, 60.0)}
        for name, one in values.items():
            columns.setdefault(name, []).append(one)
    table = {name: np.concatenate(parts) for name, parts in columns.items()}
    rows = []
    for label, low, high in CLASSES:
        here = (table["procs"] >= low) & (table["procs"] <= high)
        for what in ("wait", "slowdown"):
            means = {
                n: float(table[f"{what} {n}"][here].mean())
                for n in ("lab_without", "lab_with", "sim_without", "sim_with")
            }
            group = np.unique(table["group"][here], return_inverse=True)[1]
            pair = paired_differences(
                table[f"{what} lab_with"][here][None],
                table[f"{what} lab_without"][here],
                group,
                np.random.default_rng(boot),
            )[0]
            row = {"procs": label, "jobs": int(here.sum()), "what": what, **means, "difference": pair.difference,
                   "low": pair.low, "high": pair.high, "word": pair.verdict()}  # fmt: skip
            rows.append(row | {"lab_gain": 1 - means["lab_with"] / means["lab_without"],
                               "sim_gain": 1 - means["sim_with"] / means["sim_without"]})  # fmt: skip
    return rows


def show(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown; waits in minutes."""
    titles = list(rows[0])

    def cell(name: str, value: Any) -> str:
        return f"{value:.0%}" if name.endswith("gain") else f"{value:.1f}" if isinstance(value, float) else str(value)

    lines = [titles, ["---"] * len(titles), *([cell(n, row[n]) for n in titles] for row in rows)]
    return "\n".join("| " + " | ".join(line).replace("_", " ") + " |" for line in lines)


def told(run: dict[str, Any]) -> str:
    """Return how many jobs were planned, how soon (medians), and whose limits accounting has in the end."""
    wishes = workload(run["seed"], run["jobs"], run["load"])[1]
    after = [row["planned_at"] - row["submit"] for row in run["rows"] if row["planned_at"] is not None]
    others = sum(row["limit"] != wish.limit for row, wish in zip(run["rows"], wishes))
    soon = f", {np.median(after) / 60:.1f} min after they came" if after else ""
    states = {state: sum(row["state"] == state for row in run["rows"]) for state in {r["state"] for r in run["rows"]}}
    back = f"{run['limits_restored']} given back, {others} with another limit than their user's in accounting"
    return f"{run['limits_planned']} planned{soon}, {back}, {states}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--load", type=float, default=1.3)
    parser.add_argument("--speed", type=float, default=60.0)
    parser.add_argument("-o", "--output", type=Path, default=Path("planning_gain.jsonl"))
    given = parser.parse_args()
    if reason := missing(given.speed):
        print(f"planning_gain: {reason}", file=sys.stderr)
        return 1
    lines = given.output.read_text().splitlines() if given.output.exists() else []
    runs = {_key(one): one for one in map(json.loads, lines)}
    pairs = []
    for seed in map(int, given.seeds.split(",")):
        for planned in (False, True):
            asked = (seed, given.jobs, given.load, given.speed, planned)
            if asked not in runs:
                runs[asked] = measure(*asked)
                with given.output.open("a") as out:
                    out.write(json.dumps(runs[asked]) + "\n")
            one = runs[asked]
            print(seed, "planned" if planned else "as it is", told(one))
        pairs.append(tuple(runs[seed, given.jobs, given.load, given.speed, planned] for planned in (False, True)))
    print(show(compare(pairs)))
    return 0


def _key(run: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(run[name] for name in ("seed", "jobs", "load", "speed", "planned"))


if __name__ == "__main__":
    sys.exit(main())
