"""The rows of job steps in a `sacct` dump, gathered into one peak of memory a job, and who outgrew what it had."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from .layout import Layout
from .memory import STEP_FIELDS, Peak, outgrew, peak

_PLACES = {name.lower(): name for name in (*STEP_FIELDS[1:], "AllocNodes", "AllocTRES", "State")}
_MEASURED = ("maxrss", "tresusageinmax", "tresusageintot")


class StepPeaks:
    """The peak of each job over the rows of its steps, by the text of its id; jobs' own rows may be among them.

    >>> layout = Layout.of("JobID|Submit|MaxRSS")
    >>> peaks = StepPeaks(); peaks.take(layout, [["7.batch", "7.0"], ["", ""], ["0", "12K"]])
    >>> peaks.of(["7", "8"], np.array([2.0, 1.0])).tolist(), peaks.zeros
    ([24.0, nan], 1)
    """

    def __init__(self) -> None:
        self.zeros = self.bad = 0
        self._most: dict[str, float] = {}
        self._outgrown: set[str] = set()

    def take(self, layout: Layout, columns: Sequence[Sequence[str]]) -> None:
        """Rows of one layout, job by job or step by step."""
        if layout.first(*_MEASURED) is None:
            return
        names = [(place, _PLACES[name]) for name, place in layout.place.items() if name in _PLACES]
        measured = [columns[layout.place[name]] for name in _MEASURED if name in layout.place]
        for k, (job, *texts) in enumerate(zip(columns[layout.job], *measured)):
            if not any(texts):
                continue
            row = {name: columns[place][k] for place, name in names}
            one: Peak = peak([row])
            self.zeros += one.zeros
            self.bad += one.bad
            if one.node_kib == one.node_kib:
                name = job.partition(".")[0]
                self._most[name] = max(one.node_kib, self._most.get(name, 0.0))
                if "." in job and outgrew(row):
                    self._outgrown.add(name)

    def of(self, ids: Sequence[object], nodes: np.ndarray) -> np.ndarray:
        """KiB of each whole job (n,): its busiest node's peak times its nodes; NaN where no step was measured.

        A number that two records share is nobody's: whose steps they were cannot be told.
        """
        most = [self._most.get(text, math.nan) if alone else math.nan for text, alone in _alone(ids)]
        return np.array(most) * np.where(nodes > 0, nodes, 1.0)

    def outgrown(self, ids: Sequence[object]) -> np.ndarray:
        """Which of the jobs (n,) had a step that was ended for its memory (`formats.memory.outgrew`)."""
        return np.array([alone and text in self._outgrown for text, alone in _alone(ids)], bool)

    def notes(self) -> list[str]:
        """What was read and not learned from, in sentences."""
        notes = []
        if self.zeros:
            notes.append(f"{self.zeros} job steps have a peak memory of 0 (ended before the first sample): unknown")
        if self.bad:
            notes.append(
                f"{self.bad} job steps have a peak memory that is none (negative, a unit that is none, or more"
                " than a pebibyte): unknown"
            )
        return notes


def _alone(ids: Sequence[object]) -> list[tuple[str, bool]]:
    """Each job's number as text, and whether no other record has it."""
    texts = [str(job) for job in ids]
    seen = Counter(texts)
    return [(text, seen[text] == 1) for text in texts]
