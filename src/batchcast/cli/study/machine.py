# SPDX-License-Identifier: Apache-2.0
"""`batchcast machine`: the cluster as Slurm describes it, and how true a simulation of it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..grammar import Verbs
from ..options import describe_log, log_options, take_log
from ..output import console, document, emit, print_columns, progress, say, write_text

if TYPE_CHECKING:
    from ...cluster.machine import Machine
    from ...evaluation.slurm_record import Agreement, Sheet
    from ...report.blocks import Kind

TITLES = ("set", "against", "jobs", "30 s", "300 s", "mean wait", "wait ratio", "KS", "rank")
CAUSES: tuple[tuple[str, str, Kind], ...] = (
    ("jobs", "jobs", "count"),
    ("wait_hours", "wait-hours", "count"),
    ("share", "of the recorded", "share"),
    ("core_hours", "times processors", "count"),
    ("core_share", "of the recorded", "share"),
)
AS = ("as recorded", "as described", "corrected")
JUDGED = ("set", "states", "starts", "right", "seen", "within 30 s")


@click.group(
    cls=Verbs, short_help="The cluster as Slurm describes it: capture, show; prove a simulation against a record."
)
def command() -> None:
    """A machine with nodes, partitions, priorities and limits, and Slurm's scheduler simulated on it."""


@command.command()
@click.argument("dumps", required=False, type=click.Path(path_type=Path))
@click.option("-o", "--output", "output", type=click.Path(path_type=Path), help="Write here instead of to stdout.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document: the machine, and what is not modelled.")
def capture(dumps: Path | None, output: Path | None, as_json: bool) -> None:
    """Write a machine as TOML: from DUMPS, or from the Slurm of this computer (scontrol, sacctmgr).

    A file that ends in .xml is a platform of SimGrid's, read and written for Batsim: hosts, cores and speeds.

    DUMPS is a folder with node.txt, partition.txt, config.txt, ... or what the same commands print with --json
    (node.json, ...), or a slurm.conf, with its includes and gres.conf beside it.

    \b
    batchcast machine capture -o machine.toml
    batchcast machine capture /etc/slurm/slurm.conf -o machine.toml
    batchcast machine capture platform.xml -o machine.toml
    batchcast machine capture machine.toml -o platform.xml
    """
    from ...errors import BatchcastError
    from ...formats.batsim import platform_of
    from ...trace.slurm_record import DUMPS, machine_of, open_machine, toml_of

    if dumps is not None:
        machine = open_machine(dumps)
    else:
        from ...slurm.transport import Commands

        slurm = Commands()
        try:
            texts = {name: slurm.ask(words).text for name, words in DUMPS.items()}
        except BatchcastError as error:
            hint = "run this where Slurm's clients are, or: batchcast machine capture DUMPS, or its slurm.conf"
            raise type(error)(error.message, hint=hint) from error
        machine = machine_of(texts, "this computer's Slurm")
    text = toml_of(machine)
    if as_json:
        emit(_as_document("machine capture", dumps, machine, text))
    elif output is None:
        click.echo(text, nl=False)
    if output is not None:
        write_text(output, text if output.suffix != ".xml" else platform_of(machine))
        say(f"wrote {output}: {len(machine.node_names())} nodes, {len(machine.partitions)} partitions")
    if output is not None and output.suffix == ".xml":
        say("a platform has no place for memory, partitions, limits and settings")
    if machine.left_out:
        say(f"not modelled: {', '.join(machine.left_out)}")


@command.command()
@click.argument("machine", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON document: the machine, and what is not modelled.")
def show(machine: Path, as_json: bool) -> None:
    """MACHINE (TOML, a slurm.conf, a platform's XML, or a folder of dumps) in words.

    \b
    batchcast machine show machine.toml
    """
    from ...cluster.toml import describe
    from ...formats.slurm.resources import fold
    from ...trace.slurm_record import open_machine, toml_of

    opened = open_machine(machine)
    if as_json:
        emit(_as_document("machine show", machine, opened, toml_of(opened)))
        return
    for line in describe(opened, fold):
        click.echo(line)


def _as_document(verb: str, place: Path | None, machine: Machine, text: str) -> dict[str, Any]:
    """The machine's own file as JSON, what Slurm's configuration holds beyond the model as warnings."""
    import tomllib

    warnings = [f"not modelled: {name}" for name in machine.left_out]
    return document(verb, {"source": str(place or "this computer's Slurm")}, {}, warnings, [tomllib.loads(text)])


@command.command()
@log_options
@click.option("-o", "--output", "output", type=click.Path(path_type=Path), help="Write here instead of to stdout.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document: the machine, its evidence, the judgement.")
def learn(output: Path | None, as_json: bool, **given: Any) -> None:
    """Write the machine that LOG implies: its size, partitions, caps by user and account, outages, held jobs.

    Learned on the first 60 % of the jobs and judged on the rest, which it never saw. Each line of the file has what
    speaks for it above it; strike out or edit what you know better, and use the file as --machine. Of the waiting time
    of the other jobs it is said how much the simulation has as well, and what the record shows of the rest.

    \b
    batchcast machine learn jobs.psv -o machine.toml
    batchcast whatif jobs.psv --machine machine.toml --vary nodes=+10%
    """
    from ...evaluation.simulated import judged_on
    from ...report.blocks import Table, TableColumn
    from ...report.terminal import show
    from ...report.validity import judgement
    from ...simulation.slurm_trace import simulate_on
    from ...trace.implied.causes import wait_hours
    from ...trace.implied.learned import commented, split
    from ...trace.slurm_record import toml_of

    log = take_log(given)
    with progress("Learning", 2) as tick:
        learned, trace, rest = split(log.trace, log.procs)
        tick(1)
        schedule = simulate_on(learned.machine, trace, procs=log.procs)
    checked = judged_on(learned.machine, trace, schedule, rest, log.procs)
    causes = wait_hours(trace, learned.machine, schedule, rest, log.procs)
    text = commented(toml_of(learned.machine), [*learned.lines, *(cause for cause in causes if cause.jobs)])
    if as_json:
        rows = [{"part": "line", **asdict(line)} for line in learned.lines] + [checked.row()]
        rows += [{"part": "cause", **asdict(cause)} for cause in causes]
        emit(document("machine learn", describe_log(trace), log.settings, log.warnings, rows))
    elif output is None:
        click.echo(text, nl=False)
    if output is not None:
        write_text(output, text)
    if as_json:
        return
    for line in learned.sentences():
        say(line)
    columns = [TableColumn("says", "cause"), *(TableColumn(*words) for words in CAUSES)]
    table = Table("Waiting time of the judged jobs by cause", columns, [asdict(cause) for cause in causes])
    show(console(stderr=True), [judgement(checked), table])


@command.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--sets", default="", metavar="NAMES", help="Only these sets, e.g. fifo,short-backfill-12.")
@click.option("--states", default=50, show_default=True, help="Recorded states of each run to decide from; 0: none.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def prove(folder: Path, sets: str, states: int, as_json: bool) -> None:
    """Recorded schedules of a real Slurm in FOLDER (NAME-1 and NAME-2, each run twice) beside the simulated ones.

    FOLDER may hold an answer sheet instead: settings.csv, machine/ (dumps) and runs/ID.psv, one run for each setting of
    the priority weights. Then the simulated answers to these what-if questions stand beside the recorded ones: as the
    machine is described, and corrected by what the recorded starts speak for. Means decide no correction.

    Each set has a line for the second run against the first, for the simulation of each run, and for another policy:
    what two real runs agree is the most that can be asked for, what another policy reaches proves nothing.

    \b
    batchcast machine prove records
    """
    from ...errors import InputError
    from ...evaluation.slurm_record import ANSWERS

    if (folder / ANSWERS).is_file():
        return _prove_answers(folder, as_json)
    names = [name for name in sets.split(",") if name] or sorted(p.name[:-2] for p in folder.glob("*-1"))
    if not names or not all((folder / f"{name}-1").is_dir() for name in names):
        raise InputError(
            f"{folder}: no recorded sets here (accepted: folders NAME-1 and NAME-2, or an answer sheet's settings.csv)"
        )
    rows: list[dict[str, Any]] = []
    with progress("replaying", len(names)) as tick:
        for done, name in enumerate(names):
            rows += _set_rows(folder, name, states)
            tick(done + 1)
    if as_json:
        emit(document("machine prove", {"folder": str(folder)}, {"states": states}, [], rows))
        return
    replayed = [r for r in rows if "ks" in r]
    print_columns([TITLES, *(_cells(r) for r in replayed)], 2)
    judged = [r for r in rows if "states" in r]
    if judged:
        click.echo()
        click.echo("Starts in the ten minutes after recorded states, history as recorded until then:")
        print_columns([JUDGED, *(_decided(r) for r in judged)], 1)


def _prove_answers(folder: Path, as_json: bool) -> None:
    """The runs of an answer sheet, and how well the simulated answers agree with them."""
    from ...evaluation.slurm_record import MEANS, agreement_of, answers, farthest

    with progress("simulating", None) as tick:
        sheet = answers(folder, tick)
    summary = agreement_of(sheet.answers)
    effects, far = summary.pop("effects"), farthest(sheet.answers)
    if as_json:
        runs = [{"part": "run", **asdict(one)} for one in sheet.answers]
        more = [{"part": "effect", **each} for each in effects]
        instead = [{"part": "instead", "setting": name, "value": value} for name, value in sheet.instead.items()]
        rows = [*runs, *more, *instead, {"part": "farthest", **far}, {"part": "agreement", **summary}]
        emit(document("machine prove", {"folder": str(folder)}, {}, [], rows))
        return
    shown = [
        (each["word"], each["value"], str(each["runs"]), *(f"{each[name]:.0f} s" for name in MEANS)) for each in effects
    ]
    print_columns([("word", "value", "runs", "mean wait", "described", "corrected"), *shown], 1)
    click.echo()
    click.echo(
        f"{len(sheet.answers)} runs of {summary['settings']} settings, {summary['cpu_s']:.1f} s of CPU a run."
        f" Recorded runs of the same weights are {summary['same_s']:.0f} s apart."
    )
    click.echo(f"As described: {_agreed(summary, '')}")
    click.echo(_corrections(sheet))
    click.echo(f"Corrected: {_agreed(summary, 'corrected_')}")
    for word in dict.fromkeys(each["word"] for each in effects):
        rows = [each for each in effects if each["word"] == word]
        if len(rows) < 2:
            continue
        told = ", ".join(f"{rows[-1][name] - rows[0][name]:+.0f} s {says}" for name, says in zip(MEANS, AS))
        click.echo(f"From {word} {rows[0]['value']} to {rows[-1]['value']}: {told}.")
    click.echo(
        f"Farthest off as described: fairshare {far['fairshare']}, age {far['age']}, jobsize {far['jobsize']}:"
        f" {', '.join(f'{far[name]:.0f} s {says}' for name, says in zip(MEANS, AS))};"
        f" in {far['without_past_use']} of its {len(far['runs'].split())} runs past use had no effect."
    )


def _agreed(summary: dict[str, Any], which: str) -> str:
    place = "among" if summary[f"{which}best"] else "not among"
    return (
        f"mean wait simulated over recorded {summary[f'{which}level']:.2f}; Spearman of the settings' means"
        f" {summary[f'{which}spearman']:.2f}; the recorded best is {place} the simulated best five; starts"
        f" {summary[f'{which}off_s']:.0f} s apart."
    )


def _corrections(sheet: Sheet) -> str:
    """What the recorded starts speak against, in a sentence."""
    parts = [f"{name} is {value}, Slurm's default" for name, value in sheet.instead.items()]
    runs = [one.run for one in sheet.answers if not one.past_use]
    if runs:
        parts.append(f"past use had no effect in {len(runs)} runs ({', '.join(runs)})")
    if not parts:
        return "The recorded starts speak against none of it."
    return f"The recorded starts speak for something else than is described: {'; '.join(parts)}."


def _set_rows(folder: Path, name: str, states: int) -> list[dict[str, Any]]:
    from ...evaluation.slurm_record import agreement, decisions, other_policy, recorded, replay_record, simulated
    from ...trace.slurm_record import open_record

    runs = [open_record(folder / f"{name}-{k}") for k in (1, 2) if (folder / f"{name}-{k}").is_dir()]
    truths = [recorded(run) for run in runs]
    rows = [_row(name, "real run 2", agreement(truths[0], truths[1]))] if len(runs) == 2 else []
    for k, run in enumerate(runs):
        rows.append(_row(name, f"simulated {k + 1}", agreement(truths[k], simulated(run, replay_record(run)))))
    other = other_policy(runs[0])
    rows.append(_row(name, "another policy", agreement(truths[0], simulated(other, replay_record(other)))))
    for k, run in enumerate(runs if states else []):
        rows.append({"set": f"{name}-{k + 1}", **asdict(decisions(run, states))})
    return rows


def _row(name: str, against: str, a: Agreement) -> dict[str, Any]:
    return {
        "set": name,
        "against": against,
        "jobs": a.jobs,
        "within_30s": a.within_30s,
        "within_300s": a.within_300s,
        "mean_wait_s": a.other_mean_wait_s,
        "wait_ratio": a.wait_ratio,
        "ks": a.ks,
        "rank": a.rank,
    }


def _cells(r: dict[str, Any]) -> Sequence[str]:
    shares = (f"{r[key]:.0%}" for key in ("within_30s", "within_300s"))
    wait = f"{r['mean_wait_s']:.0f} s"
    return (
        r["set"],
        r["against"],
        str(r["jobs"]),
        *shares,
        wait,
        f"{r['wait_ratio']:.3f}",
        f"{r['ks']:.3f}",
        f"{r['rank']:.3f}",
    )


def _decided(r: dict[str, Any]) -> Sequence[str]:
    return (r["set"], str(r["states"]), str(r["starts"]), *(f"{r[key]:.0%}" for key in ("right", "seen", "close")))
