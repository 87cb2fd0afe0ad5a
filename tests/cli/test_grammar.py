"""Tests the common grammar of all verbs: inputs by position, outputs by `-o`, and the output format by the file's
ending."""

from __future__ import annotations

import errno
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from tests.cli.test_every_verb import VERBS

from batchcast.cli.main import cli
from batchcast.store.database import Store
from batchcast.trace import demo_path, read_trace
from batchcast.trace.whole_file import whole_file

DEMO = str(demo_path())


def run(*words: str, code: int = 0) -> Result:
    done = CliRunner().invoke(cli, list(words))
    assert done.exit_code == code, (done.output, done.exception)
    return done


def test_convert_without_a_place_says_how_to_name_one() -> None:
    error = CliRunner().invoke(cli, ["convert", DEMO]).exception
    assert "-o is missing" in str(error)
    assert f"batchcast convert {DEMO} -o" in str(error)


@pytest.mark.parametrize("words", [("convert", DEMO, "--first", "5"), ("synth", "--jobs", "5")])
def test_a_dash_is_stdout_as_csv(words: tuple[str, ...]) -> None:
    lines = run(*words, "-o", "-").stdout.splitlines()
    assert len(lines) == 6
    assert "submit_time" in lines[0].split(",")


def test_a_dash_is_stdin(tmp_path: Path) -> None:
    out = tmp_path / "a.parquet"
    done = CliRunner().invoke(
        cli, ["convert", "-", "-o", str(out)], input=run("synth", "--jobs", "5", "-o", "-").stdout
    )
    assert done.exit_code == 0, done.exception
    assert len(read_trace(out)) == 5


def test_stdout_holds_one_thing() -> None:
    error = CliRunner().invoke(cli, ["convert", DEMO, "-o", "-", "--json"]).exception
    assert "both write on stdout" in str(error)


@pytest.mark.parametrize("verb", ["info", "runtime", "simulate"])
def test_notes_are_told_once_on_stderr_in_the_singular_for_one(verb: str, tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    run("synth", "--jobs", "50", "-o", str(log))
    log.write_text(log.read_text() + "1 2 3\n")
    done = run(verb, str(log))
    assert done.stderr.count("left out") == 1
    assert "1 line left out" in done.stderr
    assert "left out: " not in done.stdout
    with_json = run(verb, str(log), "--json")
    assert with_json.stderr == ""
    assert [note for note in json.loads(with_json.stdout)["warnings"] if "1 line left out" in note]


@pytest.mark.parametrize(
    "words",
    [
        ("runtime", DEMO, "--status", "failed", "--user", "nobody"),
        ("convert", DEMO, "--from", "2099-01-01", "-o", "x.csv"),
        ("info", "there-is-no-such.swf"),
        ("start", "--store", "there-is-none.db"),
        ("evaluate", DEMO, "--polcy", "easy"),
        ("wait",),
        ("simulate", DEMO, "--replicates", "many"),
    ],
)
def test_json_is_one_document_where_there_is_no_answer(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(cli, [*words, "--json"], env={"BATCHCAST_CONFIG": "/dev/null", "PATH": ""})
    said = json.loads(done.stdout)
    assert said["schema"] == f"batchcast/{words[0]}/1"
    assert said["results"] == []
    assert said["warnings"]
    assert done.exit_code != 0


def test_the_help_groups_the_verbs_by_who_asks() -> None:
    said = run("help").stdout
    titles = [line[:-1] for line in said.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == ["Study a log", "For users", "Run a site", "Logs", "More"]
    assert "Over a log: wait" in " ".join(said.split())


def test_help_shows_a_few_verbs_first_and_the_help_of_any_verb() -> None:
    first = run("--help").stdout
    shown = re.findall(r"^  (\w+)  ", first.partition("Commands:")[2], re.M)
    assert shown == ["demo", "info", "evaluate", "report", "start", "walltime", "collect", "doctor"]
    assert "More: batchcast help" in first
    assert run("help", "info").stdout == run("info", "--help").stdout
    assert run("help", "site", "purge").stdout == run("site", "purge", "--help").stdout
    assert "no command 'nonsense'" in str(CliRunner().invoke(cli, ["help", "nonsense"]).exception)
    assert run("-V").stdout == run("-v").stdout == run("--version").stdout


@pytest.mark.parametrize("verb", ["purge", "export", "token"])
def test_verbs_of_the_store_stand_below_site(verb: str) -> None:
    assert verb in run("site", "--help").stdout
    assert run("site", verb, "--help").stderr == ""
    assert f"did you mean site {verb}?" in str(run(verb, code=2).output)
    assert f"  {verb} " not in run("--help").stdout


def test_export_goes_by_its_ending(tmp_path: Path) -> None:
    store = str(tmp_path / "s.db")
    Store(store, create=True).close()
    error = CliRunner().invoke(cli, ["site", "export", "--store", store, "-o", "history.xls"]).exception
    assert "its ending names no format" in str(error)


def test_options_of_a_log_stand_under_headings() -> None:
    said = run("simulate", "--help").stdout
    places = [said.index(f"\n{word}:") for word in ("Options", "Read", "Select", "Plan")]
    assert places == sorted(places)
    assert said.index("\nRead:") < said.index("--timezone") < said.index("\nSelect:") < said.index("--from")


@pytest.mark.parametrize("verb", ["simulate", "evaluate", "whatif"])
def test_help_fits_two_screens_with_a_line_for_each_option(verb: str) -> None:
    lines = run(verb, "--help").stdout.splitlines()
    assert len(lines) <= 55
    after = lines[lines.index("Options:") + 1 :]
    assert all(re.match(r"  \S", line) for line in after if line and not line.endswith(":"))


def test_rare_options_are_set_by_name_and_listed_on_demand() -> None:
    assert "--protocol" not in run("simulate", "--help").stdout
    assert "--protocol" in run("help", "simulate", "--all").stdout
    words = ("simulate", DEMO, "--first", "50", "--json")
    flags = json.loads(run(*words, "--protocol", "paper", "--no-kill", "--seed", "3").stdout)["settings"]
    named = json.loads(run(*words, "--set", "protocol=paper", "--set=no_kill=yes", "--seed=3").stdout)["settings"]
    assert named == flags
    assert (named["protocol"], named["kill"], named["seed"]) == ("paper", False, 3)


@pytest.mark.parametrize(("setting", "said"), [("speed=3", "accepted: cluster"), ("no-kill=5", "accepted: yes, no")])
def test_a_wrong_setting_says_what_is_accepted(setting: str, said: str) -> None:
    assert said in str(CliRunner().invoke(cli, ["evaluate", DEMO, "--set", setting]).exception)


def options() -> list[tuple[str, click.Command, click.Option]]:
    """Return every option that help shows, with its verb."""
    return [
        (name, command, each)
        for name, command in VERBS.items()
        for each in command.params
        if isinstance(each, click.Option) and not each.hidden
    ]


def kind(option: click.Option) -> str:
    """Return the kind of value that an option takes; names, dates and paths all count as text."""
    if option.is_flag:
        return "flag"
    if isinstance(option.type, click.Choice):
        return "words"
    return "number" if option.type.name.startswith(("integer", "float")) else "text"


NUMBER_OR_FILE = {"--jobs", "--procs-total", "--procs", "--nodes"}
"""An option may take a number in one verb and a file or word in another, if the option means the same. `vasp estimate`
takes a number of processors and nodes, where a log verb takes a column name and `sbatch` takes a range."""


def test_one_spelling_has_one_meaning() -> None:
    kinds: dict[str, dict[str, list[str]]] = {}
    for verb, _, option in options():
        for spelling in option.opts:
            kinds.setdefault(spelling, {}).setdefault(kind(option), []).append(verb)
    twice = {spelling: found for spelling, found in kinds.items() if len(found) > 1 and spelling not in NUMBER_OR_FILE}
    assert not twice


def test_words_of_one_option_are_of_one_family() -> None:
    """Checks that one option name has one meaning: `--scheduler` once meant `policy|slurm` in one verb and `slurm|pbs`
    in another."""
    words: dict[str, list[set[str]]] = {}
    for _, _, option in options():
        if isinstance(option.type, click.Choice) and "--data-set" not in option.opts:
            words.setdefault(option.opts[-1], []).append({str(word) for word in option.type.choices})
    apart = {name: sets for name, sets in words.items() if not set.intersection(*sets)}
    assert not apart


def test_one_meaning_has_one_spelling() -> None:
    """Options with the same description must have the same name."""
    names: dict[str, set[str]] = {}
    for _, _, option in options():
        if option.help != "With --test.":  # options of sbatch, each under the name that sbatch uses
            names.setdefault(str(option.help), set()).add(max(option.opts, key=len))
    assert {said: found for said, found in names.items() if len(found) > 1} == {}


SHELL = [sys.executable, "-c", "from batchcast.cli.main import entry; entry()"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["simulate", DEMO, "--polcy", "easy"], "batchcast: no option --polcy\n  try: --policy\n"),
        (["simulate", DEMO, "--xyz"], "batchcast: no option --xyz\n  try: batchcast simulate --help\n"),
        (["simulate"], "batchcast: missing argument 'LOG...'\n  try: batchcast simulate --help\n"),
        (["evaluat"], "batchcast: no command 'evaluat' (did you mean evaluate?)\n  try: batchcast --help\n"),
        (["simulate", DEMO, "--policy", "easy:order=foo"], "batchcast: --policy: order: no 'foo'"),
    ],
)
def test_usage_errors_have_one_style(words: list[str], said: str) -> None:
    done = subprocess.run([*SHELL, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(said)


def test_a_suggestion_is_near() -> None:
    assert "did you mean" not in str(CliRunner().invoke(cli, ["runtime", DEMO, "--predictor", "foo"]).exception)
    assert "kernel" in str(CliRunner().invoke(cli, ["runtime", DEMO, "--predictor", "kernl"]).exception).split("try")[1]


@pytest.mark.parametrize("header", ["JobID|State|Start", "JobID    JobName    State", "JobID,State,End"])
def test_text_of_sacct_that_cannot_be_read_gets_the_line_that_works(header: str, tmp_path: Path) -> None:
    log = tmp_path / "jobs.txt"
    log.write_text(f"{header}\n1|COMPLETED|2026-01-01T00:00:00\n")
    assert "try: sacct -a -P --delimiter=^ -S 2026-01-01 -o ALL" in str(
        CliRunner().invoke(cli, ["info", str(log)]).exception
    )


def test_a_reader_that_has_enough_is_no_failure() -> None:
    command = f"{shlex.join([*SHELL, 'simulate', DEMO, '--policy', 'easy,fcfs'])} | true; exit ${{PIPESTATUS[0]}}"
    assert subprocess.run(["bash", "-c", command], capture_output=True, check=False).returncode == 0


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space") as caught, whole_file(tmp_path / "a.csv") as path:
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.filename == str(tmp_path / "a.csv")
    assert not path.exists()


def test_local_times_are_noted_and_a_zone_moves_them(tmp_path: Path) -> None:
    log = tmp_path / "jobs.txt"
    log.write_text(
        "JobID|State|Submit|Start|End|NCPUS\n"
        "1|COMPLETED|2026-07-01T09:00:00|2026-07-01T09:00:00|2026-07-01T10:00:00|4\n"
    )
    assert "--timezone NAME" in run("info", str(log)).stderr
    there = json.loads(run("info", str(log), "--timezone", "Europe/Stockholm", "--json").stdout)
    assert there["log"]["first_submit"] == "2026-07-01 09:00:00"
    assert there["warnings"] == []
    out = tmp_path / "out.csv"
    run("convert", str(log), "--timezone", "Europe/Stockholm", "-o", str(out))
    assert "1782889200" in out.read_text()  # 09:00 in that time zone is 07:00 UTC


def test_debug_is_accepted_after_the_verb() -> None:
    """An unexpected error advises to run the same command with --debug, and people append that option to the end."""
    assert run("info", DEMO, "--debug").stdout == run("--debug", "info", DEMO).stdout
