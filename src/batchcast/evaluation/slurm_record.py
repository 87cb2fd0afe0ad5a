# SPDX-License-Identifier: Apache-2.0
"""A simulated Slurm held to a recorded one: starts, waits, single decisions from recorded states, what-if answers."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from ..errors import InputError
from ..formats.slurm_record import Record
from ..metrics.curves import cdf_distance, rank_correlation
from ..schedule.slurm.requests import Phases
from ..schedule.slurm.simulate import Recorded, SlurmSchedule, Takes, simulate_slurm

POLL = 1.015  # seconds of the controller's loop, under the clock of the recorded labs
WINDOW = 600.0
HALF = 0.5  # recorded times are whole seconds, cut
Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Agreement:
    """Two schedules of the same submissions. Shares of common jobs; `ks` is Kolmogorov-Smirnov's of the waits."""

    jobs: int
    within_30s: float
    within_300s: float
    mean_wait_s: float
    other_mean_wait_s: float
    ks: float
    rank: float

    @property
    def wait_ratio(self) -> float:
        """The second's mean wait over the first's."""
        return self.other_mean_wait_s / self.mean_wait_s if self.mean_wait_s else float("nan")


@dataclass(frozen=True, slots=True)
class Decisions:
    """Starts in the ten minutes after each of `states` recorded states.

    `right`: of the simulated starts, how many are starts of the record in that window; `seen`: of the record's starts,
    how many are simulated; `close`: of the starts in both, how many within 30 s. Shares over all states together.
    """

    states: int
    starts: int
    right: float
    seen: float
    close: float


def replay_record(record: Record, known: Recorded | None = None, **rules: float) -> SlurmSchedule:
    """The record's submissions and run times on its machine, with its phases of cycles where its logs tell them.

    `known` stands in place of what is taken from the whole record, `rules` override settings.
    """
    told = known or Recorded(record.nodes_down, phases=Phases(record.cycle, record.decay, record.poll))
    usual: dict[str, Any] = {"poll": POLL, "test_length": record.cycle_length}
    return simulate_slurm(record.machine, record.requests, recorded=told, **{**usual, **rules})


def recorded(record: Record) -> tuple[dict[Key, float], np.ndarray]:
    """Starts since the record began by job, and waits in seconds, of the jobs that ran."""
    ran = {k: t for k, t in record.truth.items() if t["start"] == t["start"]}
    waits = [t["start"] - max(t["submit"], t["eligible"]) for t in ran.values()]
    return {k: t["start"] - int(record.start) for k, t in ran.items()}, np.array(waits)


def simulated(record: Record, schedule: SlurmSchedule) -> tuple[dict[Key, float], np.ndarray]:
    """The same of a simulation of the record."""
    return {k: t - int(record.start) for k, t in schedule.starts().items()}, schedule.wait[~np.isnan(schedule.start)]


def agreement(one: tuple[Mapping[Key, float], np.ndarray], two: tuple[Mapping[Key, float], np.ndarray]) -> Agreement:
    """How near two schedules are; the first is the reference."""
    both = sorted(one[0].keys() & two[0].keys())
    a, b = (np.array([starts[k] for k in both]) for starts in (one[0], two[0]))
    gap = np.abs(a - b)
    return Agreement(
        len(both), float((gap <= 30).mean()), float((gap <= 300).mean()), float(one[1].mean()), float(two[1].mean()),
        cdf_distance(one[1], two[1]), rank_correlation(a, b),
    )  # fmt: skip


def decisions(record: Record, states: int = 50, tick: Callable[[], None] | None = None) -> Decisions:
    """From up to `states` samples of the record's queue: history as recorded, then ten minutes simulated."""
    places = {name: i for i, name in enumerate(record.machine.node_names())}
    parts = {p.name: k for k, p in enumerate(record.machine.partitions)}
    truth = {k: t["start"] for k, t in record.truth.items() if t["start"] == t["start"]}
    waiting = [at for at, queue in record.samples if any(state == "PD" for state, _ in queue.values())]
    chosen = [waiting[k] for k in np.unique(np.linspace(0, len(waiting) - 1, min(states, len(waiting))).astype(int))]
    right = decided = starts = close = 0
    for at in chosen:
        past: dict[Key, Takes] = {}
        for key, start in truth.items():
            if start <= at:
                part, names = record.nodes[key]
                cpus = int(record.truth[key]["cpus"]) // max(len(names), 1)
                past[key] = (start + HALF, parts[part], tuple((places[n], max(cpus, 1)) for n in names))
        phases = Phases(_last(record.cycles, at), record.decay, _last(record.polls, at))
        replayed = replay_record(record, Recorded(record.nodes_down, past, phases), since=at, until=at + WINDOW)
        mine = {k: t for k, t in replayed.starts().items() if k not in past}
        true = {k: t for k, t in truth.items() if at < t <= at + WINDOW}
        common = mine.keys() & true.keys()
        right, decided, starts = right + len(common), decided + len(mine), starts + len(true)
        close += sum(abs(mine[k] - true[k]) <= 30 for k in common)
        if tick is not None:
            tick()
    share = [a / b if b else float("nan") for a, b in ((right, decided), (right, starts), (close, right))]
    return Decisions(len(chosen), starts, *share)


def _last(times: Sequence[float], at: float) -> float | None:
    """The last of some instants that is not after `at`, else the first; None of none."""
    return max((t for t in times if t <= at), default=times[0]) if times else None


def other_policy(record: Record) -> Record:
    """The record's submissions under another policy: fifo where it backfilled, backfill without priorities or limits
    where it had them, backfill where it was fifo. A measure that this meets as well proves nothing."""
    settings = dict(record.machine.settings)
    if "builtin" in settings.get("SchedulerType", ""):
        settings["SchedulerType"] = "sched/backfill"
    elif "multifactor" in settings.get("PriorityType", ""):
        settings.update(PriorityType="priority/basic", AccountingStorageEnforce="associations,qos")
    else:
        settings["SchedulerType"] = "sched/builtin"
    return replace(record, machine=replace(record.machine, settings=settings))


ANSWERS = "settings.csv"
WORDS = {"fairshare": "PriorityWeightFairShare", "age": "PriorityWeightAge", "jobsize": "PriorityWeightJobSize"}


@dataclass(frozen=True, slots=True)
class Answer:
    """One run under settings of its own: its number, the settings, the mean waits (s) as recorded and as simulated."""

    run: str
    settings: Mapping[str, str]
    recorded_s: float
    simulated_s: float
    cpu_s: float


def answers(folder: Path, tick: Callable[[int], None] | None = None) -> list[Answer]:
    """The runs of an answer sheet, each simulated under its own settings.

    FOLDER holds `settings.csv` (sim_id, and the weights and bf_window in minutes of each), `machine` (dumps) and `runs`
    (sacct texts by sim_id, packed or not); a run that is not there is passed over. InputError names what is missing.
    """
    from ..cluster.vary import vary
    from ..simulation.slurm_trace import simulate_on
    from ..trace.read import read_trace
    from ..trace.slurm_record import open_machine

    with (folder / ANSWERS).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    if not rows or "sim_id" not in rows[0]:
        raise InputError(f"{folder / ANSWERS}: no column sim_id (accepted: sim_id, {', '.join(WORDS)}, bfwindow)")
    machine, found = open_machine(folder / "machine"), []
    for done, row in enumerate(rows):
        paths = sorted((folder / "runs").glob(f"{row['sim_id']}.psv*"))
        if paths:
            changes = {WORDS.get(key, "bf_window"): value for key, value in row.items() if key in (*WORDS, "bfwindow")}
            log, begun = read_trace(paths[0]), process_time()
            schedule = simulate_on(vary(machine, changes), log)
            took = process_time() - begun
            recorded = float(log.wait_time[schedule.rows].mean())
            settings = {key: value for key, value in row.items() if key != "sim_id"}
            found.append(Answer(row["sim_id"], settings, recorded, float(schedule.wait_time.mean()), took))
        if tick is not None:
            tick(done + 1)
    if not found:
        raise InputError(
            f"{folder / 'runs'}: none of the {len(rows)} runs of {ANSWERS} is there (accepted: ID.psv, .xz)"
        )
    return found


def agreement_of(found: Sequence[Answer]) -> dict[str, Any]:
    """How well simulated answers agree with recorded ones, over settings of weights (runs of one setting are pooled).

    `level`: simulated mean over recorded; `spearman` of the settings' means; `best`: 1 where the recorded best is among
    the simulated best five, else 0; `effects`: of each word and value, the recorded and the simulated mean.
    """
    keys = list(dict.fromkeys(tuple(a.settings.get(word, "") for word in WORDS) for a in found))
    pools = [[a for a in found if tuple(a.settings.get(word, "") for word in WORDS) == key] for key in keys]
    recorded, simulated = (
        np.array([np.mean([getattr(a, name) for a in pool]) for pool in pools])
        for name in ("recorded_s", "simulated_s")
    )
    effects = [
        {"word": word, "value": value, "recorded_s": means[0], "simulated_s": means[1], "runs": len(pool)}
        for word in found[0].settings
        for value in sorted({a.settings[word] for a in found}, key=float)
        for pool in [[a for a in found if a.settings[word] == value]]
        for means in [[float(np.mean([getattr(a, name) for a in pool])) for name in ("recorded_s", "simulated_s")]]
    ]
    return {
        "settings": len(keys),
        "level": float(np.mean([a.simulated_s for a in found]) / np.mean([a.recorded_s for a in found])),
        "spearman": rank_correlation(recorded, simulated),
        "best": int(np.argmin(recorded) in np.argsort(simulated, kind="stable")[:5]),
        "cpu_s": float(np.median([a.cpu_s for a in found])),
        "effects": effects,
    }
