"""`batchcast completion`: the lines that teach a shell to complete verbs, options, methods, policies and files."""

from __future__ import annotations

import click

from .output import document, emit


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def command(ctx: click.Context, shell: str, as_json: bool) -> None:
    """Print what makes SHELL complete batchcast's words at the tabulator key.

    \b
    eval "$(batchcast completion bash)"                       # in ~/.bashrc; zsh: the same in ~/.zshrc
    batchcast completion fish > ~/.config/fish/completions/batchcast.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(ctx.find_root().command, {}, "batchcast", "_BATCHCAST_COMPLETE").source()
    if as_json:
        emit(document("completion", {}, {"shell": shell}, [], [{"shell": shell, "script": script}]))
        return
    click.echo(script)
