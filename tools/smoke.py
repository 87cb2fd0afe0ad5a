"""Try an installed wheel like a user, in an empty folder: demo, predictions of a log, a store, the Python API."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path


def run(program: Path, *arguments: str, folder: Path) -> str:
    """Return the standard output of a command that must succeed."""
    done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise SystemExit(f"wheel: {program.name} {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def smoke(environment: Path) -> None:
    """Raise SystemExit with the output of the first command that fails."""
    command, python = environment / "bin" / "batchcast", environment / "bin" / "python"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        place = run(python, "-c", "import batchcast; print(batchcast.__file__)", folder=folder)
        assert str(environment) in place, place
        run(command, "--help", folder=folder)
        run(command, "demo", "-o", "report", folder=folder)
        assert "<html" in (folder / "report" / "index.html").read_text(encoding="utf-8")[:300]
        log = run(python, "-c", "import batchcast; print(batchcast.demo_path())", folder=folder).strip()
        rows = json.loads(run(command, "runtime", log, "--predictor", "last_2,boosted", "--json", folder=folder))
        assert {row["predictor"] for row in rows["results"]} == {"last_2", "boosted"}, rows["results"]
        run(command, "install", "-o", "units", "--private-jobs", "yes", folder=folder)
        assert f"ExecStart={command} collect" in (folder / "units" / "batchcast-collect.service").read_text()
        run(command, "convert", log, "-o", "log.parquet", folder=folder)
        assert json.loads(run(command, "info", "log.parquet", "--json", folder=folder))["log"]["jobs"] > 1000


if __name__ == "__main__":
    smoke(Path(sys.argv[1]))
