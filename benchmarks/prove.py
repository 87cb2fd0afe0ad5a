# SPDX-License-Identifier: Apache-2.0
"""Compares a simulated Slurm with a recorded one: starts, waits, single decisions, answers to what-if questions.

python -m benchmarks.prove FOLDER

FOLDER holds recorded schedules of a real Slurm (NAME-1 and NAME-2, each run twice). Each set has a line for the second
run against the first, for the simulation of each run, and for another policy: the agreement of two real runs is the
best possible value, and a value that another policy also reaches proves nothing. Alternatively FOLDER holds an answer
sheet: settings.csv, machine/ (dumps) and runs/ID.psv, one run for each setting of the priority weights. Then the
simulated answers are compared with the recorded ones: with the machine as described, and as corrected by the recorded
starts. Mean waits are not used to choose corrections.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from batchcast.errors import InputError
from batchcast.machines.machine import Machine, vary
from batchcast.metrics.curves import cdf_distance, rank_correlation
from batchcast.schedule.slurm.arrays import Phases
from batchcast.schedule.slurm.simulate import Recorded, SlurmSchedule, Takes, simulate_slurm
from batchcast.simulation.on_nodes import simulate_on
from batchcast.table import Trace
from batchcast.trace.machine_files import open_machine
from batchcast.trace.read import read_trace
from benchmarks.slurm_record import Record, open_record

POLL = 1.015  # seconds of slurmctld's main loop, on the clock of the recorded labs
WINDOW = 600.0
HALF = 0.5  # recorded times are whole seconds, rounded down
Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Agreement:
    """Two schedules of the same submissions. Shares of common jobs; `ks` is the Kolmogorov-Smirnov distance of the
    waits."""

    jobs: int
    within_30s: float
    within_300s: float
    mean_wait_s: float
    other_mean_wait_s: float
    ks: float
    rank: float

    @property
    def wait_ratio(self) -> float:
        """The second schedule's mean wait divided by the first one's."""
        return self.other_mean_wait_s / self.mean_wait_s if self.mean_wait_s else float("nan")


@dataclass(frozen=True, slots=True)
class Decisions:
    """Starts in the ten minutes after each of `states` recorded states.

    `right`: the share of simulated starts that are starts of the record in that window; `seen`: the share of the
    record's starts that are simulated; `close`: the share of starts in both that differ by at most 30 s. Shares are
    over all states together.
    """

    states: int
    starts: int
    right: float
    seen: float
    close: float


def replay_record(record: Record, known: Recorded | None = None, **rules: float) -> SlurmSchedule:
    """The record's submissions and run times on its machine, with its phases of cycles if its logs show them.

    `known` replaces values taken from the whole record, `rules` override settings.
    """
    told = known or Recorded(record.nodes_down, phases=Phases(record.cycle, record.decay, record.poll))
    usual: dict[str, Any] = {"poll": POLL, "test_length": record.cycle_length}
    return simulate_slurm(record.machine, record.requests, recorded=told, **{**usual, **rules})


def recorded(record: Record) -> tuple[dict[Key, float], np.ndarray]:
    """Return starts since the record began by job, and waits in seconds, of the jobs that ran."""
    ran = {k: t for k, t in record.truth.items() if t["start"] == t["start"]}
    waits = [t["start"] - max(t["submit"], t["eligible"]) for t in ran.values()]
    return {k: t["start"] - int(record.start) for k, t in ran.items()}, np.array(waits)


def simulated(record: Record, schedule: SlurmSchedule) -> tuple[dict[Key, float], np.ndarray]:
    """Return the same values of a simulation of the record."""
    return {k: t - int(record.start) for k, t in schedule.starts().items()}, schedule.wait[~np.isnan(schedule.start)]


def agreement(one: tuple[Mapping[Key, float], np.ndarray], two: tuple[Mapping[Key, float], np.ndarray]) -> Agreement:
    """Return how near two schedules are; the first is the reference."""
    both = sorted(one[0].keys() & two[0].keys())
    a, b = (np.array([starts[k] for k in both]) for starts in (one[0], two[0]))
    gap = np.abs(a - b)
    return Agreement(
        len(both), float((gap <= 30).mean()), float((gap <= 300).mean()), float(one[1].mean()), float(two[1].mean()),
        cdf_distance(one[1], two[1]), rank_correlation(a, b),
    )  # fmt: skip


def decisions(record: Record, states: int = 50) -> Decisions:
    """From up to `states` samples of the record's queue: recorded history, then ten simulated minutes."""
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
    share = [a / b if b else float("nan") for a, b in ((right, decided), (right, starts), (close, right))]
    return Decisions(len(chosen), starts, *share)


def _last(times: Sequence[float], at: float) -> float | None:
    """Return the last instant that is not after `at`, else the first instant; None if there are no instants."""
    return max((t for t in times if t <= at), default=times[0]) if times else None


def other_policy(record: Record) -> Record:
    """Return the record's submissions under another policy: fifo if it backfilled, backfill without priorities or
    limits if it had them, backfill if it was fifo. A measure that this policy also satisfies proves nothing."""
    settings = dict(record.machine.settings)
    if "builtin" in settings.get("SchedulerType", ""):
        settings["SchedulerType"] = "sched/backfill"
    elif "multifactor" in settings.get("PriorityType", ""):
        settings.update(PriorityType="priority/basic", AccountingStorageEnforce="associations,qos")
    else:
        settings["SchedulerType"] = "sched/builtin"
    return replace(record, machine=replace(record.machine, settings=settings))


ANSWERS = "settings.csv"
PAST_USE = "PriorityWeightFairShare"
WORDS = {"fairshare": PAST_USE, "age": "PriorityWeightAge", "jobsize": "PriorityWeightJobSize"}
DEFAULTS = {"PriorityMaxAge": "7-00:00:00", "PriorityDecayHalfLife": "7-00:00:00", "bf_interval": "30"}
"""Settings that a description may take from elsewhere, and Slurm's defaults if they are not set."""
NEARER = 0.8
"""Such a default is used if the simulated starts come nearer to the recorded starts by a fifth."""
CLEARLY = 0.5
"""Past use is assumed to have had no effect if the starts are less than half as far off without it."""
CHECKED = 5  # every fifth run is used to choose the defaults


@dataclass(frozen=True, slots=True)
class Answer:
    """One run under its own settings: its number, the settings, the mean waits (s) as recorded and as simulated.

    `off_s` is the mean distance of the simulated starts from the recorded ones. `corrected_s` and `corrected_off_s` are
    the same with the corrections that the recorded starts support, and `past_use` says whether past use had an effect
    there.
    """

    run: str
    settings: Mapping[str, str]
    recorded_s: float
    simulated_s: float
    off_s: float
    corrected_s: float
    corrected_off_s: float
    past_use: bool
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Sheet:
    """The answers, and the settings that the recorded starts support instead of the described ones."""

    answers: list[Answer]
    instead: Mapping[str, str]


def answers(folder: Path) -> Sheet:
    """Simulate each run of an answer sheet under its own settings, on the described machine and on the corrected
    machine.

    FOLDER holds `settings.csv` (sim_id, and the weights and bf_window in minutes of each), `machine` (dumps) and `runs`
    (sacct texts by sim_id, packed or not); a missing run is skipped. A description may differ from the machine of the
    runs: every fifth run decides whether one of `DEFAULTS` is nearer to the recorded starts, for all runs; each run
    decides whether past use had an effect in it. Mean waits are not used for these two decisions. Raises InputError
    that names what is missing.
    """

    described = open_machine(folder / "machine")
    runs = runs_of(folder)
    samples = [(changes, path) for _, changes, path in runs[::CHECKED]]
    instead = _instead(described, samples)
    found = []
    for row, changes, path in runs:
        log, begun = read_trace(path), process_time()
        one = waits_of(described, changes, log)
        took = process_time() - begun
        best, past_use = _with_or_without(described, {**changes, **instead}, log, one if not instead else None)
        settings = {key: value for key, value in row.items() if key != "sim_id"}
        found.append(Answer(row["sim_id"], settings, one[0], one[1], one[2], best[1], best[2], past_use, took))
    return Sheet(found, instead)


Run = tuple[dict[str, str], dict[str, str], Path]
Waits = tuple[float, float, float]
"""Mean waits as recorded and as simulated, and the distance of the starts in seconds."""


def runs_of(folder: Path) -> list[Run]:
    """Return the rows of the settings that have a run, each with the settings that it changes and the path of its run.
    Raises InputError if there are none."""
    with (folder / ANSWERS).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    if not rows or "sim_id" not in rows[0]:
        raise InputError(f"{folder / ANSWERS}: no column sim_id (accepted: sim_id, {', '.join(WORDS)}, bfwindow)")
    runs = []
    for row in rows:
        changes = {WORDS.get(key, "bf_window"): value for key, value in row.items() if key in (*WORDS, "bfwindow")}
        runs += [(row, changes, path) for path in sorted((folder / "runs").glob(f"{row['sim_id']}.psv*"))[:1]]
    if not runs:
        raise InputError(
            f"{folder / 'runs'}: none of the {len(rows)} runs of {ANSWERS} is there (accepted: ID.psv, .xz)"
        )
    return runs


def waits_of(described: Machine, changes: Mapping[str, str], log: Trace) -> Waits:
    """Return a run's jobs on the described machine with other settings."""

    schedule = simulate_on(vary(described, changes), log)
    recorded, simulated = log.wait_time[schedule.rows], schedule.wait_time
    return float(recorded.mean()), float(simulated.mean()), float(np.abs(simulated - recorded).mean())


def _with_or_without(
    described: Machine, changes: Mapping[str, str], log: Trace, known: Waits | None = None
) -> tuple[Waits, bool]:
    """Return the run with past use as its settings say, or without if that is clearly nearer; and whether it had an
    effect."""
    told = known if known is not None else waits_of(described, changes, log)
    if float(changes.get(PAST_USE, described.settings.get(PAST_USE, 0)) or 0) == 0:
        return told, True
    without = waits_of(described, {**changes, PAST_USE: "0"}, log)
    return (without, False) if without[2] < CLEARLY * told[2] else (told, True)


def _instead(described: Machine, samples: Sequence[tuple[Mapping[str, str], Path]]) -> dict[str, str]:
    """Return Slurm's defaults that the starts of these runs support, the most effective one first."""
    logs = [(changes, read_trace(path)) for changes, path in samples]

    def off(more: Mapping[str, str]) -> float:
        return sum(_with_or_without(described, {**changes, **more}, log)[0][2] for changes, log in logs)

    found: dict[str, str] = {}
    best = off(found)
    while left := [name for name in DEFAULTS if name not in found and best > 0]:
        tried = {name: off({**found, name: DEFAULTS[name]}) for name in left}
        name = min(left, key=lambda each: tried[each])
        if tried[name] > NEARER * best:
            break
        found[name], best = DEFAULTS[name], tried[name]
    return found


def agreement_of(found: Sequence[Answer]) -> dict[str, Any]:
    """Return how well simulated answers agree with recorded ones, over settings of weights (runs of one setting are
    pooled).

    `level`: simulated mean over recorded; `spearman` of the settings' means; `best`: 1 if the recorded best is among
    the simulated best five, else 0; `off_s`: the distance of the starts; each with `corrected_` with the corrections
    that the recorded starts support. `same_s` is the difference of means between recorded runs of the same weights.
    `effects`: for each word and value, the recorded, the simulated and the corrected mean.
    """
    pools = list(pooled(found).values())
    effects = [
        {"word": word, "value": value, **{name: _mean(pool, name) for name in MEANS}, "runs": len(pool)}
        for word in found[0].settings
        for value in sorted({a.settings[word] for a in found}, key=float)
        for pool in [[a for a in found if a.settings[word] == value]]
    ]
    ranges = [np.ptp([a.recorded_s for a in pool]) for pool in pools if len(pool) > 1]
    return {
        "settings": len(pools),
        **_agree(found, pools, ""),
        **_agree(found, pools, "corrected_"),
        "same_s": float(np.mean(ranges)) if ranges else float("nan"),
        "without_past_use": sum(not a.past_use for a in found),
        "cpu_s": float(np.median([a.cpu_s for a in found])),
        "effects": effects,
    }


MEANS = ("recorded_s", "simulated_s", "corrected_s")


def _mean(pool: Sequence[Answer], name: str) -> float:
    return float(np.mean([getattr(a, name) for a in pool]))


def pooled(found: Sequence[Answer]) -> dict[tuple[str, ...], list[Answer]]:
    """Return the answers by their weights."""
    pools: dict[tuple[str, ...], list[Answer]] = {}
    for a in found:
        pools.setdefault(tuple(a.settings.get(word, "") for word in WORDS), []).append(a)
    return pools


def farthest(found: Sequence[Answer]) -> dict[str, Any]:
    """Return the weights whose simulated mean, as described, is farthest from the recorded one; its means and its
    runs."""
    pool = max(pooled(found).values(), key=lambda pool: abs(_mean(pool, "simulated_s") - _mean(pool, "recorded_s")))
    return {
        **{word: pool[0].settings.get(word, "") for word in WORDS},
        **{name: _mean(pool, name) for name in MEANS},
        "runs": " ".join(a.run for a in pool),
        "without_past_use": sum(not a.past_use for a in pool),
    }


def _agree(found: Sequence[Answer], pools: Sequence[Sequence[Answer]], which: str) -> dict[str, Any]:
    """Print level, ranks, the best five and the distance of starts, as described or corrected."""
    name = "corrected_s" if which else "simulated_s"
    recorded, simulated = (np.array([_mean(pool, each) for pool in pools]) for each in ("recorded_s", name))
    return {
        f"{which}level": _mean(found, name) / _mean(found, "recorded_s"),
        f"{which}spearman": rank_correlation(recorded, simulated),
        f"{which}best": int(np.argmin(recorded) in np.argsort(simulated, kind="stable")[:5]),
        f"{which}off_s": _mean(found, f"{which}off_s"),
    }


def print_answers(folder: Path) -> None:
    """Print the answers of a sheet, and how well the simulated ones agree with the recorded ones."""
    sheet = answers(folder)
    summary, far = agreement_of(sheet.answers), farthest(sheet.answers)
    print_columns(
        ("word", "value", "runs", "mean wait", "described", "corrected"),
        ((each["word"], each["value"], each["runs"], *(f"{each[name]:.0f} s" for name in MEANS))
         for each in summary["effects"]),
    )  # fmt: skip
    print(
        f"\n{len(sheet.answers)} runs of {summary['settings']} settings, {summary['cpu_s']:.1f} s of CPU a run."
        f" Recorded runs of the same weights are {summary['same_s']:.0f} s apart."
    )
    told = [f"{name} is {value}, Slurm's default" for name, value in sheet.instead.items()]
    runs = [one.run for one in sheet.answers if not one.past_use]
    told += [f"past use had no effect in {len(runs)} runs ({', '.join(runs)})"] if runs else []
    print(f"As described: {_agreed(summary, '')}")
    print(f"The recorded starts speak for something else than is described: {'; '.join(told)}." if told
          else "The recorded starts speak against none of it.")  # fmt: skip
    print(f"Corrected: {_agreed(summary, 'corrected_')}")
    for word in dict.fromkeys(each["word"] for each in summary["effects"]):
        rows = [each for each in summary["effects"] if each["word"] == word]
        if len(rows) > 1:
            by = (f"{rows[-1][name] - rows[0][name]:+.0f} s {says}" for name, says in zip(MEANS, AS, strict=True))
            print(f"From {word} {rows[0]['value']} to {rows[-1]['value']}: {', '.join(by)}.")
    print(
        f"Farthest off as described: {', '.join(f'{word} {far[word]}' for word in WORDS)}:"
        f" {', '.join(f'{far[name]:.0f} s {says}' for name, says in zip(MEANS, AS, strict=True))};"
        f" in {far['without_past_use']} of its {len(far['runs'].split())} runs past use had no effect."
    )


AS = ("as recorded", "as described", "corrected")


def _agreed(summary: dict[str, Any], which: str) -> str:
    place = "among" if summary[f"{which}best"] else "not among"
    return (
        f"mean wait simulated over recorded {summary[f'{which}level']:.2f}; Spearman of the settings' means"
        f" {summary[f'{which}spearman']:.2f}; the recorded best is {place} the simulated best five; starts"
        f" {summary[f'{which}off_s']:.0f} s apart."
    )


def print_sets(folder: Path, states: int) -> None:
    """Print the recorded sets, each with its second run, its simulations and another policy; then single decisions."""
    names = sorted(p.name[:-2] for p in folder.glob("*-1"))
    if not names:
        raise InputError(f"{folder}: no recorded sets here (accepted: folders NAME-1 and NAME-2, or {ANSWERS})")
    replayed, judged = [], []
    for name in names:
        runs = [open_record(place) for k in (1, 2) if (place := folder / f"{name}-{k}").is_dir()]
        truths = [recorded(run) for run in runs]
        other = other_policy(runs[0])
        pairs = [("real run 2", truths[0], truth) for truth in truths[1:]]
        pairs += [(f"simulated {k + 1}", truths[k], simulated(run, replay_record(run))) for k, run in enumerate(runs)]
        for against, one, two in [*pairs, ("another policy", truths[0], simulated(other, replay_record(other)))]:
            a = agreement(one, two)
            figures = (f"{figure:.3f}" for figure in (a.wait_ratio, a.ks, a.rank))
            shares = (f"{a.within_30s:.0%}", f"{a.within_300s:.0%}", f"{a.other_mean_wait_s:.0f} s")
            replayed.append((name, against, a.jobs, *shares, *figures))
        for k, run in enumerate(runs if states else []):
            found = decisions(run, states)
            shares = (f"{share:.0%}" for share in (found.right, found.seen, found.close))
            judged.append((f"{name}-{k + 1}", found.states, found.starts, *shares))
    print_columns(("set", "against", "jobs", "30 s", "300 s", "mean wait", "wait ratio", "KS", "rank"), replayed)
    if judged:
        print("\nStarts in the ten minutes after recorded states, history as recorded until then:")
        print_columns(("set", "states", "starts", "right", "seen", "within 30 s"), judged)


def print_columns(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print cells under titles, each column as wide as its widest cell."""
    lines = [titles, *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--states", type=int, default=50, help="recorded states of each run to decide from; 0: none")
    given = parser.parse_args(words)
    if (given.folder / ANSWERS).is_file():
        print_answers(given.folder)
    else:
        print_sets(given.folder, given.states)


if __name__ == "__main__":
    main()
