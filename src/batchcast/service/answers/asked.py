# SPDX-License-Identifier: Apache-2.0
"""Stores questions and answers of `start --test`. The collector compares each answer with the job that is submitted
afterwards.

Questions are added by processes that may write beside the store: the service, and commands of the collector's own user.
Each question is a line of JSON in a file that only its owner can read. The collector removes the lines it reads, so the
file stays short.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...ceilings import without_links
from ...job import JobRequest
from ...predict.protocol import Prediction
from ...store.rows import as_values

MOST_BYTES = 1_000_000
"""No line is added to a file of this size, because a file grows so long only if no collector reads it."""
SUBMITTED_WITHIN_S = 900.0
"""A job of the same user, partition, size and limit counts as the job asked about if it is submitted within
this time.
"""


def keep_asked(place: Path, job: JobRequest, said: Prediction, method: str, now: float) -> None:
    """Add one question and its answer, if this process may write beside the store. If writing fails, the line
    is lost.
    """
    if not os.access(place.parent, os.W_OK) or not all(map(math.isfinite, (said.point, *said.quantiles))):
        return
    like = {"user": job.user_id, "partition": job.partition_id, "procs": job.procs, "limit": job.req_time}
    line = json.dumps({"at": now, "method": method, "like": like, "said": as_values(said)})
    with suppress(OSError), open(place, "a", encoding="utf-8", opener=without_links) as file:
        status = os.fstat(file.fileno())
        if _is_own(status) and status.st_size < MOST_BYTES:
            file.write(line + "\n")


def take_asked(place: Path) -> Iterator[Mapping[str, Any]]:
    """Yield every question that was added since the last call, and remove the questions from the file.

    Incomplete lines, and files that another user may have written, are ignored.
    """
    taken = place.with_name(place.name + ".taken")
    try:
        place.replace(taken)
        with open(taken, "rb", opener=without_links) as file:
            lines = file.read(2 * MOST_BYTES).splitlines() if _is_own(os.fstat(file.fileno())) else []
    except OSError:
        return
    finally:
        with suppress(OSError):
            taken.unlink()
    for line in lines:
        with suppress(ValueError, RecursionError):
            yield json.loads(line)


def _is_own(status: os.stat_result) -> bool:
    """Return whether the open file is a regular file without further hard links that only this user or root can have
    written.
    """
    is_ours = status.st_uid in (0, os.geteuid()) and not status.st_mode & 0o022
    return is_ours and stat.S_ISREG(status.st_mode) and status.st_nlink == 1
