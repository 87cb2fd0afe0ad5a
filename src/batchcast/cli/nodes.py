"""What `evaluate` and `simulate` share where Slurm's own loops decide on nodes: `--scheduler`, `--machine`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError

if TYPE_CHECKING:
    from ..cluster.machine import Machine

OF_A_POOL = {
    "policies": "--policy", "no_kill": "--no-kill", "wide": "--wide", "partitions": "--partitions", "loop": "--loop",
    "default_request": "--default-request", "plan_level": "--plan-level",
}  # fmt: skip
"""Options that mean a pool of processors, by the names that click gives them."""


def node_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--scheduler` and `--machine`; hand what they gave to `take_nodes`."""
    for option in (
        click.option(
            "--machine",
            type=click.Path(),
            metavar="FILE",
            help="The machine (TOML or a folder of dumps); implies --scheduler slurm.",
        ),
        click.option(
            "--scheduler",
            type=click.Choice(["policy", "slurm"]),
            help="slurm: its two loops on --machine, else on the machine of LOG's header or its peak by partition.",
        ),
    ):
        command = option(command)
    return command


def take_nodes(given: dict[str, Any]) -> tuple[str, Machine | None]:
    """`policy` or `slurm`, and the machine as described, if one is; takes its keys out of `given`.

    UsageError where an option of the pool of processors is given with nodes.
    """
    described, scheduler = given.pop("machine"), given.pop("scheduler")
    chosen = scheduler or ("slurm" if described else "policy")
    if chosen != "slurm":
        return "policy", None
    context = click.get_current_context()
    for name, option in OF_A_POOL.items():
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise UsageError(
                f"{option} is for a pool of processors; Slurm's two loops follow the machine's own settings",
                hint="--scheduler policy, or `batchcast whatif --vary` (simulate: --set) for other settings",
            )
    if described is None:
        return "slurm", None
    from ..trace.slurm_machine import open_machine

    return "slurm", open_machine(described)
