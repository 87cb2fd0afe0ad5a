# SPDX-License-Identifier: Apache-2.0
"""Compute the number of GPUs that a job kept busy, from the rows of its steps."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from .resources import parse_tres
from .sacct_layout import Layout

_PERCENT = re.compile(r"\d+(\.\d*)?")


class StepGpus:
    """The number of GPUs that each record kept busy: `gres/gpuutil` of its busiest step (percent, summed over GPUs) /
    100.

    A step belongs to the last record before it with its id, because runs of a requeued job share an id.

    Examples
    --------
    >>> layout = Layout.of("JobID|Submit|TRESUsageInTot")
    >>> gpus = StepGpus(); gpus.take(layout, [["7", "7.0", "8"], ["", "", ""], ["", "gres/gpuutil=160,mem=1G", ""]])
    >>> gpus.of(["7", "8"]).tolist()
    [1.6, nan]
    """

    def __init__(self) -> None:
        self._records: Counter[str] = Counter()
        self._busy: dict[tuple[str, int], float] = {}

    def take(self, layout: Layout, columns: Sequence[Sequence[str]]) -> None:
        """Read rows of one layout in the order of the file, jobs and steps."""
        used = layout.first("tresusageintot")
        if used is None:
            return
        for job, text in zip(columns[layout.job], columns[used]):
            number, is_step, _ = job.partition(".")
            self._records[number] += not is_step
            percent = parse_tres(text).get("gres/gpuutil", "") if "gres/gpuutil" in text else ""
            if _PERCENT.fullmatch(percent):
                key = (number, self._records[number])
                self._busy[key] = max(float(percent) / 100.0, self._busy.get(key, 0.0))

    def of(self, ids: Sequence[object]) -> np.ndarray:
        """Return the busy GPUs of each record, shape (n,), by ids in the order of the file; NaN if no step was
        measured.
        """
        seen: Counter[str] = Counter()
        busy = []
        for number in map(str, ids):
            seen[number] += 1
            busy.append(self._busy.get((number, seen[number]), math.nan))
        return np.array(busy)
