# SPDX-License-Identifier: Apache-2.0
"""Finds jobs that were submitted soon after `start --test` predicted them, so that those predictions are scored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...store import clock_jobs
from ...store.database import Connection
from ...store.rows import as_prediction
from ..answers.asked import SUBMITTED_WITHIN_S, take_asked

ASKED = "asked"
"""The moment of an answer of `start --test` that was followed by such a job."""


class AskedBefore:
    """The questions that no job has followed yet."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._open: list[Mapping[str, Any]] = []

    def find(self, connection: Connection, cluster: str, now: float) -> int:
        """Store the answers to questions as predictions of the jobs that followed; return their number.

        A job is the outcome only of the last question that fits it.
        """
        self._open += take_asked(self.place)
        found: dict[int, Mapping[str, Any]] = {}
        rest = []
        for one in sorted(self._open, key=lambda one: one["at"]):
            row = clock_jobs.followed_by(connection, cluster, one["like"], one["at"], one["at"] + SUBMITTED_WITHIN_S)
            if row is not None:
                found[row] = one
            elif now - one["at"] < SUBMITTED_WITHIN_S:
                rest.append(one)
        self._open = rest
        shared = {"kind": "wait", "moment": ASKED, "issued_at": now}
        clock_jobs.issue(
            connection,
            [
                {
                    **shared,
                    "row": row,
                    "as_of": one["at"],
                    "method": one["method"],
                    "prediction": as_prediction(one["said"]),
                }
                for row, one in found.items()
            ],
        )
        return len(found)
