# SPDX-License-Identifier: Apache-2.0
"""What a log has of a job's request beside its size: dependencies, sharing, wanted nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..table import Trace
from .machine import Machine
from .request import DETAILS, NodeRequest, RequestDetails, keys_by_id

ENDED_WELL = ("completed", None)
_SOON = 2.0  # seconds in which Slurm finds a job eligible that nothing holds


class RequestsOfLog:
    """The rest of each request of a log on a machine.

    What the machine does not have (a feature, a license, a partition) and what is not known of the log's own jobs (one
    it depends on that is not in it) is passed over. A job that neither its dependency nor its throttle holds back waits
    until the log says it was eligible: that is where a hold or a begin time ended.
    """

    def __init__(self, trace: Trace, machine: Machine) -> None:
        self._details, self._said = RequestDetails.of(machine), _columns(trace)
        self._eligible = trace.number("eligible_time").tolist()
        self._status = trace.nominal("status").decode()
        self._ids = trace.job_id.tolist()
        rows = enumerate(self._ids) if "dependency" in self._said else ()
        self._keys = keys_by_id({str(row): job for row, job in rows})
        self._silent = not (self._said or trace.job_id.dtype.kind not in "iu" or "eligible_time" in trace.names)

    def complete(self, row: int, request: NodeRequest) -> NodeRequest:
        """The request with what the log tells of it."""
        if self._silent:
            return request
        said = {name: values[row] for name, values in self._said.items()}
        made = self._details.complete(request, self._ids[row], said, self._keys)
        if self._keys and self._status[row] not in ENDED_WELL:
            made = replace(made, fails=True)
        held = made.depends or made.singleton or made.throttle
        late = self._eligible[row] > request.submit + _SOON and not held
        return replace(made, begin=float(self._eligible[row])) if late else made

    def sentence(self) -> str:
        """Which of these the log tells, and which it does not."""
        there = [words for name, words in DETAILS.items() if name in self._said]
        missing = [words for words in DETAILS.values() if words not in there]
        known = f"the log tells {', '.join(there)}; " if there else ""
        unknown = f"it does not tell {', '.join(missing)}; " if missing else ""
        held = "a job waits at least until the log says it was eligible"
        return f"{known}{unknown}{held if any(e == e for e in self._eligible) else 'holds and begin times neither'}"


def _columns(trace: Trace) -> dict[str, list[Any]]:
    """The details that the log has, by name."""
    found: dict[str, list[Any]] = {}
    for name in DETAILS:
        if name in trace.names:
            values = trace.column(name)
            found[name] = values.tolist() if isinstance(values, np.ndarray) else values.decode()
    return found
