# SPDX-License-Identifier: Apache-2.0
"""What `start --test` was asked and said, kept for the collector, which finds the job that was then submitted.

Whoever may write beside the store keeps it: the service, or the collector's own user by hand. It is a line of JSON a
question in a file of its owner's alone; the collector takes the lines, so that the file stays short.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...job import JobRequest
from ...predict.protocol import Prediction
from ...store.rows import as_values

MOST_BYTES = 1_000_000
"""No line is added to a longer file: nobody collects."""
SUBMITTED_WITHIN_S = 900.0
"""A job of the same user, partition, size and limit that is submitted so soon afterwards is what was asked about."""


def keep_asked(place: Path, job: JobRequest, said: Prediction, method: str, now: float) -> None:
    """Add one question and its answer, where this process may write there; what fails loses the line and no answer."""
    if not os.access(place.parent, os.W_OK) or not all(map(math.isfinite, (said.point, *said.quantiles))):
        return
    like = {"user": job.user_id, "partition": job.partition_id, "procs": job.procs, "limit": job.req_time}
    line = json.dumps({"at": now, "method": method, "like": like, "said": as_values(said)})
    with suppress(OSError):
        if not place.exists() or place.stat().st_size < MOST_BYTES:
            handle = os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(line + "\n")


def take_asked(place: Path) -> Iterator[Mapping[str, Any]]:
    """Every line that was kept since the last time; they are gone from the file. A line cut short is passed over."""
    taken = place.with_name(place.name + ".taken")
    try:
        place.replace(taken)
        lines = taken.read_text(encoding="utf-8").splitlines()
        taken.unlink()
    except OSError:
        return
    for line in lines:
        with suppress(ValueError):
            yield json.loads(line)
