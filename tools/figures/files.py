"""Run a study's commands where its logs lie, and keep what they printed as one small file."""

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
    """A figure that cannot be had: the sentence says why."""


@dataclass
class Figures:
    """Named values of a study, and pieces of a page: tables, and what a command prints."""

    values: dict[str, Any] = field(default_factory=dict)
    blocks: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """Commands as a page shows them, and the function that reads figures from what the last one printed."""

    name: str
    commands: tuple[str, ...]
    read: Callable[[list[Any], Path], Figures]
    logs: tuple[str, ...] = ()
    rerun: str = "minutes"
    """`minutes`: with every run; `long`: two minutes of processor time and more, with --all; `lab`: on a real Slurm."""
    json: bool = True
    """Whether each `batchcast` command is run with --json, and its document read."""
    exact: bool = True
    """Whether the same code prints the same values again, which sizes and times do not."""


def find_log(name: str) -> Path | None:
    """Where a log or a folder of records lies in the shared folder."""
    for folder in ("traces", "traces/modern", "reference", "reference/slurm"):
        if (place := SHARED / folder / name).exists():
            return place
    return None


def missing_logs(study: Study) -> list[str]:
    """The logs of a study that are not on this machine."""
    return [name for name in study.logs if find_log(name) is None]


def checksum(path: Path) -> str:
    """The sha256 of a file, or of all files of a folder in the order of their names."""
    digest = hashlib.sha256()
    for one in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if one.is_file():
            digest.update(one.read_bytes())
    return digest.hexdigest()


def run_study(study: Study) -> dict[str, Any]:
    """What the file of a study holds, its commands run now."""
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
    """What one command prints, run in the folder of the logs with the project's own Python."""
    words = command + (" --json" if study.json and command.startswith("batchcast") else "")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "BATCHCAST_SHARED": str(SHARED), "COLUMNS": "100", "TZ": "UTC"}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    done = subprocess.run(["bash", "-c", words], cwd=folder, env=env, capture_output=True, text=True)
    if done.returncode:
        raise FigureError(f"{study.name}: {words} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def content(study: Study, figures: Figures, seconds: float | None) -> dict[str, Any]:
    """A study's file: where its figures come from, then the figures."""
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
    """All files by the name of their study."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(PLACE.glob("*.json"))}
