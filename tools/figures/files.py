"""Runs a study's commands in the folder of its logs, and stores their output as one small file."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "docs" / "figures"
SHARED = Path(os.environ.get("BATCHCAST_SHARED", ROOT.parent / "shared"))


class FigureError(Exception):
    """A figure that cannot be determined, with the reason."""


@dataclass
class Figures:
    """Named values of a study, and pieces of a page: tables, and printed output."""

    values: dict[str, Any] = field(default_factory=dict)
    blocks: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """Commands as on a page, and the function that reads figures from the last command's output."""

    name: str
    commands: tuple[str, ...]
    read: Callable[[list[Any], Path], Figures]
    logs: tuple[str, ...] = ()
    rerun: str = "minutes"
    """`minutes`: in every run; `long`: from two minutes of processor time on, with --all; `lab`: on a real Slurm."""
    json: bool = True
    """Whether each `batchcast` command is run with --json and its document is read."""
    exact: bool = True
    """Whether equal code prints equal values again; sizes and times do not."""


def find_log(name: str) -> Path | None:
    """Return the path of a log, or of a folder of records, in the shared folder."""
    for folder in ("traces", "traces/modern", "reference", "reference/slurm"):
        if (place := SHARED / folder / name).exists():
            return place
    return None


def missing_logs(study: Study) -> list[str]:
    """Return the logs of a study that are not on this machine."""
    return [name for name in study.logs if find_log(name) is None]


def checksum(path: Path) -> str:
    """Return the sha256 of a file, or of all files of a folder in order of their names."""
    digest = hashlib.sha256()
    for one in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if one.is_file():
            digest.update(one.read_bytes())
    return digest.hexdigest()


def run_study(study: Study) -> dict[str, Any]:
    """Run a study's commands and return the content of its file."""
    printed: list[Any] = []
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for log in study.logs:
            place = find_log(log)
            if place is None:
                raise FigureError(f"{study.name}: no log {log} in {SHARED}")
            (folder / log).symlink_to(place.resolve())
        for command in study.commands:
            text = _run(command, folder, study)
            as_json = study.json and command.startswith("batchcast")
            printed.append(json.loads(text) if as_json else text)
        figures = study.read(printed, folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = sum(after[:2]) - sum(before[:2])
    return content(study, figures, round(seconds, 1))


def _run(command: str, folder: Path, study: Study) -> str:
    """Run one command in the folder of the logs with the project's Python, and return its output."""
    words = command + (" --json" if study.json and command.startswith("batchcast") else "")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "BATCHCAST_SHARED": str(SHARED), "COLUMNS": "100", "TZ": "UTC"}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    done = subprocess.run(["bash", "-c", words], cwd=folder, env=env, capture_output=True, text=True)
    if done.returncode:
        raise FigureError(f"{study.name}: {words} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def content(study: Study, figures: Figures, seconds: float | None) -> dict[str, Any]:
    """Return a study's file: the source of its figures, then the figures."""
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    logs = {name: checksum(place) for name in study.logs if (place := find_log(name)) is not None}
    return {
        "commands": list(study.commands),
        "rerun": study.rerun,
        "exact": study.exact,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": commit.stdout.strip() or "unknown",
        "cpu_seconds": seconds,
        "logs": logs,
        "values": figures.values,
        "blocks": figures.blocks,
    }


def keep(name: str, found: dict[str, Any]) -> Path:
    """Write the file of a study."""
    PLACE.mkdir(parents=True, exist_ok=True)
    path = PLACE / f"{name}.json"
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def read_files() -> dict[str, dict[str, Any]]:
    """Return all files by the name of their study."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(PLACE.glob("*.json"))}
