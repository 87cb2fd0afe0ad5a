# SPDX-License-Identifier: Apache-2.0
"""Compute the number of GPUs that a job kept busy, and their memory, from the rows of its steps."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from ...units import parse_memory
from .resources import parse_tres
from .sacct_layout import Layout

_PERCENT = re.compile(r"\d+(\.\d*)?")


class StepGpus:
    """The number of GPUs that each record kept busy: `gres/gpuutil` of its busiest step (percent, summed over GPUs) /
    100. And the GPU memory that a step used most of, KiB summed over GPUs (`gres/gpumem`).

    A step belongs to the last record before it with its id, because runs of a requeued job share an id.

    Examples
    --------
    >>> layout = Layout.of("JobID|Submit|TRESUsageInTot")
    >>> gpus = StepGpus(); gpus.take(layout, [["7", "7.0", "8"], ["", "", ""], ["", "gres/gpuutil=160,mem=1G", ""]])
    >>> gpus.of(["7", "8"]).tolist(), gpus.memory_of(["7", "8"]).tolist()
    ([1.6, nan], [nan, nan])
    """

    def __init__(self) -> None:
        self._records: Counter[str] = Counter()
        self._busy: dict[tuple[str, int], float] = {}
        self._memory: dict[tuple[str, int], float] = {}

    def take(self, layout: Layout, columns: Sequence[Sequence[str]]) -> None:
        """Read rows of one layout in the order of the file, jobs and steps."""
        used = layout.first("tresusageintot")
        if used is None:
            return
        for job, text in zip(columns[layout.job], columns[used]):
            number, is_step, _ = job.partition(".")
            self._records[number] += not is_step
            if "gres/gpu" not in text:
                continue
            tres, key = parse_tres(text), (number, self._records[number])
            if _PERCENT.fullmatch(percent := tres.get("gres/gpuutil", "")):
                self._busy[key] = max(float(percent) / 100.0, self._busy.get(key, 0.0))
            if (memory := parse_memory(tres.get("gres/gpumem", ""))) >= 0:
                self._memory[key] = max(memory, self._memory.get(key, 0.0))

    def of(self, ids: Sequence[object]) -> np.ndarray:
        """Return the busy GPUs of each record, shape (n,), by ids in the order of the file; NaN if no step was
        measured.
        """
        return self._by_record(self._busy, ids)

    def memory_of(self, ids: Sequence[object]) -> np.ndarray:
        """Return the GPU memory of each record, KiB, shape (n,), by ids in the order of the file; NaN if unknown."""
        return self._by_record(self._memory, ids)

    def _by_record(self, values: Mapping[tuple[str, int], float], ids: Sequence[object]) -> np.ndarray:
        """Return the value of each record, by the number of earlier records with its id."""
        seen: Counter[str] = Counter()
        found = []
        for number in map(str, ids):
            seen[number] += 1
            found.append(values.get((number, seen[number]), math.nan))
        return np.array(found)
