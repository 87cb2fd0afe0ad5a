"""One command line, one grammar: an option means one thing wherever it stands, and older spellings still work."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import batchcast
from batchcast.cli.main import MOVED, TITLES, VERBS, cli
from batchcast.cli.verb import OLD

OWN = {"reproduce", "grid", "vasp"}
"""Verbs of papers and of plug-in packages have a vocabulary of their own."""
SETTINGS = {("collect", "--memory"): "a setting of the site, named as in its file"}


def verbs(group: click.Group = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from verbs(command, (*path, name))
        else:
            yield (*path, name), command


def family(option: click.Option) -> str:
    """What kind of value an option takes."""
    if option.is_flag:
        return "none"
    number = isinstance(option.type, click.types.IntParamType | click.types.FloatParamType)
    return "a number" if number else "a path" if isinstance(option.type, click.Path) else "words"


def test_an_option_means_one_thing_wherever_it_stands() -> None:
    meanings: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path, command in verbs():
        for option in (each for each in command.params if isinstance(each, click.Option)):
            for spelling in option.opts:
                if path[0] not in OWN and spelling.startswith("--") and (path[-1], spelling) not in SETTINGS:
                    meanings[spelling][family(option)].append(" ".join(path))
    assert {spelling: dict(kinds) for spelling, kinds in meanings.items() if len(kinds) > 1} == {}


def test_what_is_written_goes_to_o_and_nowhere_else() -> None:
    for path, command in verbs():
        if path[0] not in OWN:
            spelled = {name for each in command.params for name in each.opts}
            assert ("--output" in spelled) == ("-o" in spelled), path
            assert not spelled & {"--out", "--output-file", "--to-file"}, path


def test_every_older_spelling_has_a_verb_that_takes_the_new_one() -> None:
    new = {path[-1]: {name for each in command.params for name in each.opts} for path, command in verbs()}
    for verb, names in OLD.items():
        assert set(names.values()) <= new[verb], verb
        assert not set(names) & new[verb], f"{verb}: older and new at once"


def test_the_help_groups_the_verbs_and_leaves_none_out() -> None:
    text = CliRunner().invoke(cli, ["--help"]).output
    places = [text.index(f"{title}:") for title in TITLES.values()]
    assert places == sorted(places)
    assert all(f"\n  {verb} " in text for verb in VERBS)


def test_a_moved_verb_works_and_says_where_it_is(tmp_path: Path) -> None:
    for verb, room in MOVED.items():
        done = CliRunner().invoke(cli, [verb, "--help"])
        assert done.exit_code == 0
        assert f"it is `batchcast {room} {verb}` now" in done.stderr
    log = str(batchcast.demo_path())
    done = CliRunner().invoke(cli, ["convert", log, str(tmp_path / "x.csv")])
    assert done.exit_code == 0, done.output
    assert "convert writes to -o OUT now" in done.stderr
    done = CliRunner().invoke(cli, ["simulate", log, "--first", "200", "--scheduler=policy", "--json"])
    assert done.exit_code == 0, done.output
    assert "--scheduler is --model now" in done.stderr
    assert json.loads(done.stdout)["results"]


@pytest.mark.parametrize("verb", ["evaluate", "runtime", "wait", "simulate", "limits"])
def test_options_stand_under_headings(verb: str) -> None:
    text = CliRunner().invoke(cli, [verb, "--help"]).output
    places = [text.index(f"\n{title}:") for title in ("Read", "Select")]
    assert places == sorted(places)
    assert text.index("--format", places[0]) < places[1] < text.index("--from", places[1])


def test_a_policy_brings_its_forecast_unless_told_otherwise() -> None:
    log, words = str(batchcast.demo_path()), ["--first", "300", "--policy", "easy,forecast", "--json"]
    rows = json.loads(CliRunner().invoke(cli, ["simulate", log, *words]).stdout)["results"]
    assert [(row["policy"], row["predictor"]) for row in rows] == [("easy", "requested"), ("forecast", "kernel")]
    rows = json.loads(CliRunner().invoke(cli, ["simulate", log, *words, "--predictor", "last_2"]).stdout)["results"]
    assert {row["predictor"] for row in rows} == {"last_2"}
