"""Tests that no file in the working directory is run as code, by any verb or by a process that a verb starts."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from tools.rooms import parsed

import batchcast
from batchcast.trace.source import demo_path

from ..cli.test_every_verb import VERBS
from ..cli.test_live import _store
from ..until import until

SOURCE = Path(batchcast.__file__).parent
COMMAND = Path(sysconfig.get_path("scripts")) / "batchcast"
NOT_INSTALLED = {"polars", "tabpfn", "torch", "pandas", "river", "yaml", "usercustomize", "sitecustomize"}
TRAPS = sorted(sys.stdlib_module_names | set(packages_distributions()) | NOT_INSTALLED | {"batchcast", "last_2"})
STUDY = 'predictors = ["last_2"]\npolicies = ["easy"]\n[[log]]\npath = "{log}"\nfirst = 20\n'
LOG = str(demo_path())
WORK = {
    **{verb: f"{verb} {LOG} --first 40" for verb in ("info", "runtime", "wait", "simulate", "limits")},
    "evaluate": f"evaluate {LOG} --first 40 --policy easy --predictor last_2 --workers 2 -o ../report",
    "convert": f"convert {LOG} --first 40 -o ../log.csv",
    "machine learn": f"machine learn {LOG}",
    "sweep run": "sweep run ../study.toml -o ../sweep --workers 2",
    "synth": "synth --jobs 40 -o ../synth.swf",
    "start": "start 600 --store ../s.db",
    "walltime": "walltime --name relax --store ../s.db",
    "report": "report --store ../s.db",
    "accuracy": "accuracy --store ../s.db",
    "plan": "plan --store ../s.db",
    "doctor": "doctor --store ../s.db",
    "completion": "completion bash",
    "submit": "submit ../job.sh",
}
"""A short call of each verb that loads more than its help does."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in which each module that Python could import, and each file of settings, writes to the file `ran`."""
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    for name in TRAPS:
        text = f"with open({str(tmp_path / 'ran')!r}, 'a') as canary:\n    canary.write({name!r} + ' ')\n"
        (hostile / f"{name}.py").write_text(text)
    (hostile / ".env").write_text(f"PYTHONPATH={hostile}\nBATCHCAST_STORE={tmp_path / 'ran'}\n")
    (hostile / ".numba_config.yaml").write_text(f"cache_dir: {tmp_path / 'ran'}\n")
    (tmp_path / "study.toml").write_text(STUDY.format(log=LOG))
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#SBATCH -n 1\n")
    return hostile


def run(folder: Path, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=folder, env=environment(), input=text, capture_output=True, text=True)


def environment() -> dict[str, str]:
    left_out = re.compile("PYTHON|BATCHCAST")
    return {k: v for k, v in os.environ.items() if not left_out.match(k)} | {"BATCHCAST_CONFIG": os.devnull}


def ran(folder: Path) -> list[str]:
    """Return the traps that ran."""
    canary = folder.parent / "ran"
    return canary.read_text().split() if canary.is_file() else ["a folder"] if canary.exists() else []


def test_a_trap_runs_under_plain_python_m(folder: Path) -> None:
    run(folder, sys.executable, "-m", "batchcast", "--version")
    assert ran(folder)


@pytest.mark.parametrize("words", [[str(COMMAND)], [sys.executable, "-P", "-m", "batchcast"]])
def test_the_command_and_python_with_safe_path_run_no_trap(words: list[str], folder: Path) -> None:
    done = run(folder, *words, "info", LOG, "--first", "40")
    assert done.returncode == 0, done.stderr
    assert ran(folder) == []


@pytest.mark.long
@pytest.mark.parametrize("verb", sorted(VERBS.keys() - {"mcp", "serve"}))
def test_no_verb_runs_a_trap(verb: str, folder: Path) -> None:
    if "--store" in WORK.get(verb, ""):
        _store(str(folder.parent / "s.db"), False, time.time())
    done = run(folder, str(COMMAND), *WORK.get(verb, f"{verb} --help").split())
    assert "Traceback" not in done.stderr
    assert done.returncode == {"doctor": 1, "submit": 2}.get(verb, 0), done.stderr  # there is no Slurm here
    assert ran(folder) == []


def test_an_assistant_s_question_runs_no_trap(folder: Path) -> None:
    store = _store(str(folder.parent / "s.db"), False, time.time())
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    call = {"name": "start", "arguments": {"job_ids": ["600"]}}
    lines: list[dict[str, object]] = [
        {"id": 1, "method": "initialize", "params": client}, {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": call},
    ]  # fmt: skip
    pipe = subprocess.PIPE
    words = [str(COMMAND), "mcp", "--store", store]
    with subprocess.Popen(words, cwd=folder, env=environment(), stdin=pipe, stdout=pipe, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for line in lines:
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **line}) + "\n")
            server.stdin.flush()
            answer = json.loads(server.stdout.readline()) if "id" in line else {}
        server.stdin.close()
    assert answer["result"]["structuredContent"]["results"][0]["job_id"] == "600"
    assert ran(folder) == []


def test_the_processes_of_the_service_run_no_trap(folder: Path) -> None:
    """A report is computed in a child process."""
    store = _store(str(folder.parent / "s.db"), False, time.time())
    socket = folder.parent / "api.sock"
    words = [str(COMMAND), "serve", "--store", store, "--listen", str(socket)]
    with subprocess.Popen(words, cwd=folder, env=environment(), stderr=subprocess.DEVNULL) as server:
        try:
            until(socket.exists)
            from batchcast.client import Client

            assert Client(str(socket), patience_s=60.0).ask("report", {"partition": "main"})
        finally:
            server.terminate()
    assert ran(folder) == []


STARTS = re.compile(
    r"(subprocess\.(run|Popen|call|check_call|check_output|getoutput|getstatusoutput)|pty\.\w+"
    r"|os\.(exec\w+|spawn\w+|posix_spawnp?|system|popen|fork|forkpty)|asyncio(\.subprocess)?\.create_subprocess_\w+"
    r"|multiprocessing\.(Process|Pool|Manager)|\S*\.(Process|ProcessPoolExecutor|SLURMCluster|LocalCluster)"
    r"|webbrowser\.\w+|click\.(edit|launch|echo_via_pager|pager)|\w+\.(loop\.)?subprocess_(exec|shell))"
)
MODULES = re.compile(r"subprocess|pty|import os|from os|multiprocessing|Process|Cluster|webbrowser|click")
REASONS = {
    "client.py: subprocess.run": "the console script; the folder's relative paths are meant",
    "clusters/configured.py: subprocess.run": "sbatch and its sisters, for whom the folder is the job's",
    "slurm/transport.py: subprocess.Popen": "clients of the batch system, by their names on PATH",
    "processes.py: get_context().Process": "forks this process, and imports nothing",
    "sweep/run.py: concurrent.futures.ProcessPoolExecutor": "PYTHONSAFEPATH, which is -P, for each process",
    "sweep/run.py: dask_jobqueue.slurm.SLURMCluster": "PYTHONSAFEPATH in the prologue of the workers' script",
}
"""Processes that are not started by `child_command` in a chosen folder, and why they run no file of the folder."""


def starts(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield each use of a function that starts a process, and whether it is a call that keeps the rule: its program is
    `child_command`, and it names its folder."""
    text = path.read_text()
    if not MODULES.search(text):
        return
    nodes = list(ast.walk(tree := parsed(text)))
    imported = {}
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            below = f"{node.module}." if isinstance(node, ast.ImportFrom) and not node.level else ""
            imported |= {each.asname or each.name.split(".")[0]: f"{below}{each.name}" for each in node.names}
    notes = [note for node in nodes for note in (getattr(node, "annotation", None), getattr(node, "returns", None))]
    types = {id(part) for note in notes if note for part in ast.walk(note)}
    calls = {id(node.func): node for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        if isinstance(node, (ast.Name, ast.Attribute)) and id(node) not in types:
            name = dotted(node, imported)
            if STARTS.fullmatch(name):
                yield name, id(node) in calls and keeps_the_rule(calls[id(node)], tree)


def dotted(node: ast.expr, imported: dict[str, str]) -> str:
    """Return the name of a function as it is imported: `subprocess.run`."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value, imported)}.{node.attr}"
    if isinstance(node, ast.Call):
        return f"{dotted(node.func, imported).rpartition('.')[2]}()"
    return imported.get(node.id, node.id) if isinstance(node, ast.Name) else ""


def keeps_the_rule(call: ast.Call, tree: ast.Module) -> bool:
    """Return whether the program of a call is `child_command(...)`, directly or by a variable, and has a folder."""
    words = call.args[0].value if call.args and isinstance(call.args[0], ast.Starred) else (call.args or [None])[0]
    if isinstance(words, ast.Name):
        given = [node.value for node in ast.walk(tree) if isinstance(node, ast.Assign)
                 and any(isinstance(to, ast.Name) and to.id == words.id for to in node.targets)]  # fmt: skip
        words = given[0] if len(given) == 1 else None
    safe = isinstance(words, ast.Call) and isinstance(words.func, ast.Name) and words.func.id == "child_command"
    return safe and "cwd" in {each.arg for each in call.keywords}


def test_each_process_is_started_safely_or_has_a_reason() -> None:
    used = [(f"{path.relative_to(SOURCE)}: {name}", kept) for path in sorted(SOURCE.rglob("*.py"))
            for name, kept in starts(path)]  # fmt: skip
    assert {name for name, kept in used if not kept} == REASONS.keys()
    assert sum(kept for _, kept in used) >= 3


@pytest.mark.parametrize(
    ("code", "kept"),
    [
        ("import subprocess\nsubprocess.run(child_command('-c', 'x'), cwd='/')", True),
        ("import asyncio\nw = child_command()\nasyncio.create_subprocess_exec(*w, cwd='/')", True),
        ("import subprocess\nsubprocess.run(child_command('-c', 'x'))", False),
        ("import subprocess as s, sys\ns.Popen([sys.executable, '-m', 'batchcast'], cwd='/')", False),
        ("from os import execv\nexecv('/bin/sh', [])", False),
        ("from functools import partial\nfrom subprocess import run\npartial(run, 'x')", False),
        ("from multiprocessing import get_context as g\ng('spawn').Process()", False),
    ],
)
def test_the_rule_sees_each_way_to_start_a_process(code: str, kept: bool, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(code)
    assert [keeps for _, keeps in starts(tmp_path / "x.py")] == [kept]
