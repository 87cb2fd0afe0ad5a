"""The cost of a fresh clone: `python -m tools.sizes` prints megabytes and processor seconds as JSON.

It clones this repository's last commit into a temporary folder and runs `make demo` and `make setup` there; then it
installs the extra `all` into a new venv. pip and uv download packages, so seconds are of the processor, to leave the
network out.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def cpu_s() -> float:
    """Return the processor seconds of all programs run so far."""
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def run(*words: str, folder: Path) -> float:
    """Run a command in a folder and return its processor seconds; raises if the command fails."""
    before = cpu_s()
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    subprocess.run(words, cwd=folder, env=env, check=True, stdout=sys.stderr)
    return cpu_s() - before


def megabytes(folder: Path) -> int:
    """Return the size of a folder's files, each counted once, in units of 10 MB."""
    files = {(path.lstat().st_dev, path.lstat().st_ino): path.lstat().st_blocks for path in folder.rglob("*")}
    return round(512 * sum(files.values()) / 1e7) * 10


def sizes(clone: Path, python: str) -> dict[str, float]:
    """Return the megabytes of each venv, and the processor seconds of the demo with its venv."""
    demo_s = run("make", f"PYTHON={python}", "demo", folder=clone)
    found = {"demo_cpu_s": round(demo_s), "demo_mb": megabytes(clone / ".venv")}
    run(python, "-m", "venv", "all", folder=clone)
    pip = str(clone / "all" / "bin" / "python")
    run(
        pip,
        "-m",
        "pip",
        "install",
        "--quiet",
        "-c",
        "constraints.txt",
        "-e",
        ".[all]",
        "-e",
        "packages/papers",
        folder=clone,
    )
    found["all_mb"] = megabytes(clone / "all")
    run("make", f"PYTHON={python}", "setup", folder=clone)
    return found | {"test_mb": megabytes(clone / ".venv")}


def main() -> None:
    """Print the document."""
    python = str(Path(getattr(sys, "_base_executable", sys.executable)))
    with tempfile.TemporaryDirectory(prefix="batchcast-sizes-") as name:
        clone = Path(name) / "batchcast"
        run("git", "clone", "--quiet", str(ROOT), str(clone), folder=Path(name))
        print(json.dumps(sizes(clone, python)))


if __name__ == "__main__":
    main()
