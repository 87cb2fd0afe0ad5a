"""Forecasts of jobs that wait, renewed with what they see by now: the newest of each, and a few that are scored."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from typing import Any

from ..events.live import LiveClock
from ..predict.conditional import given_waited
from ..predict.protocol import Prediction
from ..store import clock_jobs
from ..store.database import Connection
from ..store.issued import as_prediction, newest
from .renewal_ages import BEFORE, SCORED

SHARE = 0.05
"""Renewals take at most this share of the time: of a very long queue they are made less often."""


class Renewal:
    """When the queue was renewed last, and what that took."""

    def __init__(self) -> None:
        self.next = -math.inf

    def renew(self, connection: Connection, cluster: str, clock: LiveClock, until: float, now: float) -> int:
        """Write anew what each method that can says of whoever waits, as of `until`; how many forecasts.

        Nothing is learned: the clock is afterwards as it was. With none that can, what was written goes.
        """
        able = {key: one for key, one in clock.predictors.items() if getattr(one, "renews", False)}
        if able and now < self.next:
            return 0
        before, began = clock.state.now, time.process_time()
        rows = []
        clock.state.now = max(before, until)
        for key, one in able.items():
            shared = {"method": json.loads(key)[1], "as_of": clock.state.now}
            rows += [{**shared, "row": row, "prediction": said} for row, said in one.of_waiting(clock.state)]
        clock.state.now = before
        clock_jobs.renew(connection, cluster, rows)
        self._keep_some(connection, cluster, until, now)
        self.next = now + (time.process_time() - began) / SHARE
        return len(rows)

    @staticmethod
    def _keep_some(connection: Connection, cluster: str, until: float, now: float) -> None:
        """Those to be scored: the first after each of the ages, and what the submission's said by then."""
        issue: list[dict[str, Any]] = []
        for moment, age in SCORED.items():
            for row in clock_jobs.waited_since(connection, cluster, moment, age, until):
                waited = max(until - row["submit_time"], 0.0)
                shared = {"row": row["row"], "kind": "wait", "moment": moment, "as_of": until, "issued_at": now}
                issue.append({**shared, "method": row["method"], "prediction": as_prediction(newest(row))})
                old = still(row, waited)
                if old is not None:
                    issue.append({**shared, "method": row["method"] + BEFORE, "prediction": old})
        clock_jobs.issue(connection, issue)


def still(row: Mapping[str, Any], waited: float) -> Prediction | None:
    """The forecast of a submission for a job that has `waited` since; None where it did not reach so far."""
    issued = as_prediction(row)
    now = given_waited(issued, waited, issued.levels) if issued.levels else given_waited(issued, waited)
    middle = given_waited(issued, waited, (0.5,)).point
    if not math.isfinite(middle):
        return None
    known = [(level, q) for level, q in zip(now.levels, now.quantiles) if math.isfinite(q)]
    return Prediction(
        middle, tuple(level for level, _ in known), tuple(q for _, q in known), issued.basis, issued.grounds
    )
