# SPDX-License-Identifier: Apache-2.0
"""`batchcast machine`: describes a cluster from Slurm's configuration, or from a log."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...errors import BatchcastError
from ..grammar import Verbs, option
from ..options import log_options, take_log
from ..output import document, echo, emit, progress, say, show_blocks, write_text

if TYPE_CHECKING:
    from ...machines.machine import Machine

CAUSES = (
    "says|cause", "jobs|jobs|count", "wait_hours|wait-hours|count", "share|of the recorded|share",
    "core_hours|times processors|count", "core_share|of the recorded|share",
)  # fmt: skip
"""Columns of the table of causes."""


@click.group(cls=Verbs, short_help="Describe a cluster in a file: from Slurm, from slurm.conf, or from a log.")
def command() -> None:
    """Describe a cluster in a file: nodes, partitions, priorities and limits."""


@command.command(json="Print one JSON document: the machine, and what is not modelled.")
@click.argument("dumps", required=False, type=click.Path(path_type=Path))
@option("-o, --output", "Output file. Default: stdout.", type=click.Path(path_type=Path))
def capture(dumps: Path | None, output: Path | None, as_json: bool) -> None:
    """Write a machine file from DUMPS, or from the Slurm of this computer (scontrol, sacctmgr).

    A file that ends in .xml is a SimGrid platform, as Batsim uses it.

    DUMPS is a slurm.conf, with its includes and gres.conf beside it, or a folder with node.txt, partition.txt,
    config.txt, ... or the --json output of the same commands (node.json, ...).

    \b
    batchcast machine capture -o machine.toml
    batchcast machine capture /etc/slurm/slurm.conf -o machine.toml
    batchcast machine capture platform.xml -o machine.toml
    batchcast machine capture machine.toml -o platform.xml
    """
    from ...formats.batsim import platform_of
    from ...trace.machine_files import open_machine, toml_of

    if dumps is not None:
        machine = open_machine(dumps)
    else:
        from ...slurm.client import Slurm
        from ...slurm.transport import Commands

        try:
            machine = Slurm(Commands()).machine()
        except BatchcastError as error:
            hint = "run this where Slurm's commands are, or: batchcast machine capture DUMPS (or its slurm.conf)"
            raise type(error)(error.message, hint=hint) from error
    text = toml_of(machine)
    if as_json:
        emit(_as_document("machine capture", dumps, machine, text))
    elif output is None:
        echo(text, nl=False)
    if output is not None:
        write_text(output, text if output.suffix != ".xml" else platform_of(machine))
        say(f"wrote {output}: {len(machine.node_names())} nodes, {len(machine.partitions)} partitions")
    if output is not None and output.suffix == ".xml":
        say("a SimGrid platform cannot express memory, partitions, limits and settings")
    if machine.left_out:
        say(f"not modelled: {', '.join(machine.left_out)}")


@command.command(json="Print one JSON document: the machine, and what is not modelled.")
@click.argument("machine", type=click.Path(path_type=Path))
def show(machine: Path, as_json: bool) -> None:
    """Describe MACHINE (TOML, slurm.conf, a platform's XML, or a folder of dumps).

    \b
    batchcast machine show machine.toml
    """
    from ...formats.slurm.resources import fold
    from ...machines.toml import describe
    from ...trace.machine_files import open_machine, toml_of

    opened = open_machine(machine)
    if as_json:
        return emit(_as_document("machine show", machine, opened, toml_of(opened)))
    for line in describe(opened, fold):
        echo(line)


def _as_document(verb: str, place: Path | None, machine: Machine, text: str) -> dict[str, Any]:
    """Return the machine file as JSON; settings of Slurm that the model ignores become warnings."""
    import tomllib

    warnings = [f"not modelled: {name}" for name in machine.left_out]
    return document(verb, {"source": str(place or "this computer's Slurm")}, {}, warnings, [tomllib.loads(text)])


@command.command(json="Print one JSON document: the machine, its evidence, and the test on later jobs.")
@log_options
@option("-o, --output", "Output file. Default: stdout.", type=click.Path(path_type=Path))
def learn(output: Path | None, as_json: bool, **options: Any) -> None:
    """Write the machine that LOG implies: size, partitions, limits by user and account, outages, held jobs.

    The machine is learned on the first 60 % of the jobs and tested on the rest. The file gives the evidence for each
    line; edit what you know better, and use the file as --machine. The output shows how much of the recorded waiting
    time the simulation explains, and the likely reasons for the rest.

    \b
    batchcast machine learn jobs.psv -o machine.toml
    batchcast whatif jobs.psv --machine machine.toml --vary nodes=+10%
    """
    from ...evaluation.validity import Recorded, judged_on
    from ...events.setup import RunSetup
    from ...report.blocks import Table, columns_of
    from ...report.validity import judgement
    from ...simulation.learned.causes import wait_hours
    from ...simulation.learned.learn import commented, split
    from ...simulation.on_nodes import simulate_on
    from ...trace.machine_files import toml_of

    log = take_log(options)
    with progress("Learning", 2) as tick:
        learned, trace, rest = split(log.trace, log.procs)
        tick(1)
        schedule = simulate_on(learned.machine, trace, setup=RunSetup(log.procs))
    checked = judged_on(learned.machine, Recorded.of(trace, rest, log.procs), schedule)
    causes = wait_hours(trace, learned.machine, schedule, rest, log.procs)
    text = commented(toml_of(learned.machine), [*learned.lines, *(cause for cause in causes if cause.jobs)])
    if as_json:
        rows = [{"part": "line", **asdict(line)} for line in learned.lines] + [checked.row()]
        rows += [{"part": "cause", **asdict(cause)} for cause in causes]
        log._replace(trace=trace).emit("machine learn", {}, rows)
    elif output is None:
        echo(text, nl=False)
    if output is not None:
        write_text(output, text)
    if as_json:
        return
    say(*learned.sentences())
    table = Table("Waiting time of the test jobs by cause", columns_of(*CAUSES), [asdict(cause) for cause in causes])
    show_blocks(judgement(checked), table, stderr=True)
