# SPDX-License-Identifier: Apache-2.0
"""`batchcast completion`: completion of verbs, options and values for bash, zsh and fish.

Computes the candidates at the cursor, and prints the script that makes a shell complete verbs, options, predictors,
policies and files.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Sequence

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class

from .grammar import option
from .output import document, emit

Candidates = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

OF_A_POLICY = (
    "order backfill backfill_order running_ends head_after first_after due_after due_ends risk_budget refresh correct "
    "event_order"
)
"""Names of the settings of a policy in the document of a simulation, in this order."""


def specs(kind: str) -> Candidates:
    """Complete a comma-separated list of methods of a kind, and a method's settings after its colon: `last_2:need=`."""

    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from ..predict.registry import available

        return _spec(incomplete, [*available(kind), "all"], lambda name: _parameters(kind, name))

    return complete


def policies(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a comma-separated list of policies, and a policy's settings after its colon."""
    names = ["fcfs", "easy", "easy-sjbf", "conservative", "forecast"]
    return _spec(incomplete, names, lambda _: [*OF_A_POLICY.split(), "kill", "predictor"])


def statuses(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a comma-separated list of the statuses with which jobs end."""
    return _last_of_list(incomplete, ("completed", "failed", "cancelled", "timeout", "unknown"))


def column_maps(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a built-in column map, or else a file name."""
    fitting = [CompletionItem(name) for name in ("nrel", "graham") if name.startswith(incomplete)]
    return fitting or [CompletionItem(incomplete, type="file")]


def formats(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a log format."""
    from ..formats import format_names

    return [CompletionItem(name) for name in format_names() if name.startswith(incomplete)]


def clean_rules(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a comma-separated list of cleaning rules."""
    from ..trace.clean import RULES

    return _last_of_list(incomplete, RULES)


def _spec(incomplete: str, names: Sequence[str], keys: Callable[[str], Iterable[str]]) -> list[CompletionItem]:
    """Complete names, or the settings of a spec after its last colon."""
    spec = re.search(r"([^,:=]+):([^:]*,)?([^,:=]*)$", incomplete)
    if spec and "=" not in spec[3]:
        before = incomplete[: len(incomplete) - len(spec[3])]
        fitting = [CompletionItem(f"{before}{key}=") for key in keys(spec[1]) if key.startswith(spec[3])]
        if fitting or not spec[2]:
            return fitting
    return _last_of_list(incomplete, names)


def _last_of_list(incomplete: str, accepted: Iterable[str]) -> list[CompletionItem]:
    """Complete the last word of a comma-separated list by the accepted words."""
    before, comma, last = incomplete.rpartition(",")
    return [CompletionItem(before + comma + word) for word in accepted if word.startswith(last)]


def _parameters(kind: str, name: str) -> list[str]:
    """Return a method's settings; empty if the method cannot be imported, because completion must not fail."""
    import inspect

    from ..predict.registry import load

    try:
        parameters = inspect.signature(load(kind, name)).parameters.values()
    except Exception:
        return []
    ours = {"answers", "max_procs", "rng", "stop"}
    return [p.name for p in parameters if p.name not in ours and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]


class Bash(BashComplete):
    """Bash completion on the line as it was typed; readline itself splits words at `:` and `=`."""

    source_template = """\
%(complete_func)s() {
    local IFS=$'\\n' answer kind value
    answer=$(env COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_BREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1" 2>/dev/null)
    COMPREPLY=()
    while IFS=, read -r kind value; do
        case $kind in
            file) compopt -o default ;;
            dir) compopt -o dirnames ;;
            plain) COMPREPLY+=("$value"); [[ $value == *[=:/] ]] && compopt -o nospace ;;
        esac
    done <<< "$answer"
    return 0
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""

    @staticmethod
    def _check_version() -> None:
        """Do nothing: bash 4.4 supports everything used here, and older versions report the problem themselves."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor, and the typed part of the word under the cursor."""
        line = os.environ["COMP_LINE"]
        before, self.incomplete = _split(line)
        return before[1:], self.incomplete

    def format_completion(self, item: CompletionItem) -> str:
        """Return `kind,value`; the value begins after the last character at which readline splits words."""
        if item.type != "plain":
            return f"{item.type},"
        breaks = set(os.environ.get("COMP_BREAKS", "")) & set(":=,")
        cut = max((self.incomplete.rfind(char) for char in breaks), default=-1) + 1
        value = item.value
        if self.incomplete.startswith("-") and "=" in self.incomplete:
            value = self.incomplete[: self.incomplete.index("=") + 1] + value
        return f"plain,{value[cut:]}"


def _split(line: str) -> tuple[list[str], str]:
    """Split a line into complete words and the unfinished word; quotes and backslashes are read as the shell does.

    >>> _split("batchcast info my\\\\ log.sw"), _split("batchcast info 'my log"), _split("batchcast ")
    ((['batchcast', 'info'], 'my log.sw'), (['batchcast', 'info'], 'my log'), (['batchcast'], ''))
    """
    for ending in ("", "'", '"', "\\\\"):
        try:
            words = shlex.split(line + ending)
            break
        except ValueError:
            continue
    else:
        words = line.split()
    unfinished = bool(words) and not re.search(r"(?<!\\)\s$", line)
    return (words[:-1], words[-1]) if unfinished else (words, "")


add_completion_class(Bash)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@option("--json", "Print one JSON document.", "as_json")
@click.pass_context
def command(ctx: click.Context, shell: str, as_json: bool) -> None:
    """Print the completion script for bash, zsh or fish.

    \b
    eval "$(batchcast completion bash)"                       # in ~/.bashrc; zsh: the same in ~/.zshrc
    batchcast completion fish > ~/.config/fish/completions/batchcast.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(ctx.find_root().command, {}, "batchcast", "_BATCHCAST_COMPLETE").source()
    if as_json:
        return emit(document("completion", {}, {"shell": shell}, [], [{"shell": shell, "script": script}]))
    click.echo(script)
