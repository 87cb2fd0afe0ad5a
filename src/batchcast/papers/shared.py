# SPDX-License-Identifier: Apache-2.0
"""What reproductions share.

Where their logs are looked for, forecasts computed before, and parts of a long computation kept as files.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from ..errors import BatchcastError, InputError
from ..events.event import Event
from ..events.state import SystemState
from ..job import JobRequest
from ..predict.protocol import Prediction
from ..sweep.task import DECIDING, own_code
from ..trace.whole_file import whole_file
from ..version import __version__


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


class Precomputed:
    """The forecast of each job by its row.

    Parameters
    ----------
    points : numpy.ndarray
        (n,) predicted run times in seconds, one a row of the log; those under one second are given as one second.
    """

    def __init__(self, points: np.ndarray) -> None:
        self.points = points.tolist()

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """The forecast of the job's row."""
        return Prediction(max(self.points[job.row], 1.0))

    def observe(self, event: Event, at: SystemState) -> None:
        """Nothing to learn."""


DECIDE = (*DECIDING, "evaluation", "grid", "papers", "vasp")  # what a part of a reproduction hangs on


class ComputedParts:
    """Each part is computed once and written to `folder` (beside, then renamed) as NAME.json.

    A file is taken instead of computing when the code (`DECIDE`) and everything in `made_of` (log hashes, settings)
    are the same; else, or with `again`, the part is computed anew and replaces it. Values are what JSON can hold, NaN
    included; a value comes back equal. `cpu_s` adds up what the parts cost, also those of earlier runs; `reused` and
    `computed` count them. Raises BatchcastError where the folder cannot be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     parts = ComputedParts(Path(place))
    ...     first = parts.part("sum", {"n": 3}, lambda: sum(range(3)))
    ...     (first, parts.part("sum", {"n": 3}, lambda: 1 / 0), parts.computed, parts.reused)
    (3, 3, 1, 1)
    """

    def __init__(self, folder: Path, again: bool = False) -> None:
        self.folder, self.again = folder, again
        self.cpu_s, self.reused, self.computed = 0.0, 0, 0

    def part(self, name: str, made_of: Mapping[str, Any], compute: Callable[[], Any]) -> Any:
        """The part's value: from its file, else computed and kept."""
        wanted = json.loads(json.dumps({"batchcast": own_code(DECIDE), **made_of}))
        path = self.folder / f"{name}.json"
        held = None if self.again else _read(path)
        if held is not None and held["made_of"] == wanted:
            self.reused += 1
        else:
            begun = process_time()
            value = compute()
            held = {"made_of": wanted, "cpu_s": process_time() - begun, "value": value}
            _write(path, held)
            self.computed += 1
        self.cpu_s += held["cpu_s"]
        return held["value"]


def _read(path: Path) -> dict[str, Any] | None:
    """The file's content; None where there is none or it is not one of ours."""
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    whole = isinstance(held, dict) and {"made_of", "cpu_s", "value"} <= held.keys()
    return held if whole else None


def _write(path: Path, held: Mapping[str, Any]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as beside:
            beside.write_text(json.dumps(held), encoding="utf-8")
    except OSError as error:
        raise BatchcastError(f"{path}: cannot be written: {error.strerror}", hint="another place after -o") from error
