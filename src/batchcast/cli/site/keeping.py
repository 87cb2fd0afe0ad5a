"""`batchcast site`: the store's history exported, migrated, purged; and the tokens that scripts ask with."""

from __future__ import annotations

from typing import Any

import click

SUMMARIES = {
    "export": "The cluster's own history as a log for evaluate and simulate.",
    "migrate": "The store brought up to this version, or taken back to what an older batchcast reads.",
    "purge": "Let go of history older than a site keeps; what goes is said first and summed up.",
    "token": "Bearer tokens, by which scripts ask over HTTP in a user's name: create, list, revoke.",
}


class _Site(click.Group):
    """Its verbs are imported when one is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs, without importing any."""
        return list(SUMMARIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb's module and return its command."""
        if cmd_name not in SUMMARIES:
            return None
        from importlib import import_module

        module = import_module(f"{__package__}.{'token' if cmd_name == 'token' else 'store'}")
        command: Any = getattr(module, "command" if cmd_name == "token" else cmd_name)
        return command  # type: ignore[no-any-return]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One line a verb."""
        with formatter.section("Commands"):
            formatter.write_dl(list(SUMMARIES.items()))


@click.group(cls=_Site)
def site() -> None:
    """Look after the store that `batchcast collect` keeps."""
