"""Finds a Python of a given version on this machine: on the PATH, or among pyenv's."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path


def interpreter(version: str) -> str | None:
    """Return the path of a working `python3.N`, else None.

    >>> interpreter("0.1") is None
    True
    """
    candidates = [shutil.which(f"python{version}")]
    candidates += map(str, sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"), reverse=True))
    for path in filter(None, candidates):
        probe = subprocess.run([path, "-c", "import venv, ssl, sqlite3"], capture_output=True, check=False)
        if probe.returncode == 0:
            return path
    return None


if __name__ == "__main__":
    print(interpreter(sys.argv[1]) or "")
