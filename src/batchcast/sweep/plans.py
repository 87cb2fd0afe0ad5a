# SPDX-License-Identifier: Apache-2.0
"""A study's results read again: a row a plan, with pictures and frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from .. import plots
from ..table.result import Picture, Rows
from .compare import CELL, PLAN, compare
from .dataset import results


@dataclass(frozen=True, slots=True, repr=False)
class SweepPlans(Rows):
    """A row for each log, period, settings and plan, compared with one of them; `table` has a row a task (polars)."""

    table: Any

    def __repr__(self) -> str:
        return f"<SweepPlans of {len(self.rows)} cells and plans, {self.table.height} tasks>"

    def _pictures(self) -> Mapping[str, Picture]:
        cells = [name for name in CELL if len({row[name] for row in self.rows}) > 1]  # what tells the rows apart
        names = (*cells, *PLAN)
        points = {
            ", ".join(str(row[name]) for name in names if row[name]): (
                row["mean_wait_s"] / 3600.0,
                row["max_wait_s"] / 3600.0,
            )
            for row in self.rows
        }
        metric = "mean_bounded_slowdown"
        return {
            "frontier": partial(plots.tradeoff, points, "mean wait (h)", "longest wait (h)"),
            "differences": partial(plots.differences, self.rows, metric, names),
        }


def read_sweep(folder: str | Path, against: str | None = None, *, seed: int = 0) -> SweepPlans:
    """What `batchcast sweep` left in a folder, each plan compared with one of them.

    Parameters
    ----------
    folder
        What `batchcast sweep -o` wrote.
    against
        The plan that all are compared with, as `POLICY, PREDICTOR`; by default the first.
    seed
        Of the draws for intervals over groups of jobs.

    Returns
    -------
    SweepPlans
        `rows`, `table`, `plot()` (`frontier`, `differences`), frames.

    Raises
    ------
    NoAnswer
        Where no task of the study has a result.

    Examples
    --------
    >>> read_sweep("no-such-folder")
    Traceback (most recent call last):
    batchcast.errors.NoAnswer: no-such-folder: no results of a study
      try: batchcast sweep STUDY.toml -o FOLDER
    """
    table = results(folder)
    return SweepPlans(compare(table, against, seed=seed), table)
