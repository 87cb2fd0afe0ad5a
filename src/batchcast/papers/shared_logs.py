"""Where the logs of `batchcast reproduce` are looked for."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import InputError


def shared_folder() -> Path:
    """BATCHCAST_SHARED, else `shared` beside the working directory or above it. InputError when there is none."""
    named = os.environ.get("BATCHCAST_SHARED")
    if named:
        return Path(named)
    for folder in (Path.cwd(), *Path.cwd().parents):
        if (folder / "shared" / "traces").is_dir():
            return folder / "shared"
    raise InputError(
        "the papers' logs were not found: no folder shared/traces here or above",
        hint="BATCHCAST_SHARED=FOLDER, the folder that holds traces/ (Parallel Workloads Archive, *.swf.gz)",
    )


def provenance(hashes: Mapping[str, str], settings: Mapping[str, Any]) -> dict[str, Any]:
    """What a reproduction's page says of itself: command, version, logs by their sha256, settings."""
    command = shlex.join(["batchcast", *sys.argv[1:]])
    return {"command": command, "batchcast": __version__, "logs (sha256)": dict(hashes), "settings": dict(settings)}
