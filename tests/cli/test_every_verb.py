"""Tests that what README.md says about every verb is true of every verb."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from batchcast.cli.main import cli


def verbs(command: click.Command, words: tuple[str, ...], ctx: click.Context) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            below = command.get_command(ctx, name)
            assert below is not None
            yield from verbs(below, (*words, name), ctx)
    else:
        yield " ".join(words), command


VERBS = dict(verbs(cli, (), click.Context(cli)))


@pytest.mark.parametrize("name", sorted(VERBS.keys() - {"mcp", "grid serve"}))  # these two verbs always exchange JSON
def test_it_takes_json(name: str) -> None:
    assert "--json" in [option for parameter in VERBS[name].params for option in parameter.opts]


@pytest.mark.parametrize("name", VERBS)
def test_what_names_a_file_completes_file_names(name: str) -> None:
    """Shell completion offers existing files for each option value that help calls FILE, LOG, OUT or FOLDER."""
    command = VERBS[name]
    ctx = click.Context(command)
    for parameter in command.params:
        if parameter.make_metavar(ctx).strip("[]") in ("FILE", "LOG...", "OUT", "FOLDER", "FILE.toml|NAME"):
            offered = parameter.shell_complete(ctx, "some-fi")
            assert [item.type for item in offered] in (["file"], ["dir"]), (name, parameter.name)
