"""Forecasts of a report as CSV: what each method said of each scored job, read again by `compare`."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .whole_file import whole_file

FORECASTS = "forecasts.csv"
"""Where a report keeps what its methods said."""
_FIRST = ("job_id", "group", "run_time")


class Forecasts(NamedTuple):
    """Of the scored jobs: ids as text (n,), groups as whole numbers (n,), run times, and each method's forecasts.

    Seconds, NaN where a method said nothing.
    """

    job_id: np.ndarray
    group: np.ndarray
    run_time: np.ndarray
    points: Mapping[str, np.ndarray]


def write_forecasts(path: str | Path, forecasts: Forecasts) -> None:
    """One line a job: job_id, group (a number that names nobody), run_time and a column a method; empty where unknown.

    Written beside and renamed. About a second for 200,000 jobs.
    """
    columns = [[_plain(v) for v in values.tolist()] for values in (forecasts.run_time, *forecasts.points.values())]
    with whole_file(path) as beside, beside.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([*_FIRST, *forecasts.points])
        writer.writerows(zip(forecasts.job_id.tolist(), forecasts.group.tolist(), *columns))


def read_forecasts(path: str | Path) -> Forecasts | None:
    """What `write_forecasts` left; None where there is no such file or it is not one. Some 200,000 jobs a second."""
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            names = next(csv.reader(file), [])
            if tuple(names[:3]) != _FIRST:
                return None
            kinds = np.dtype([("0", "U40"), ("1", "i8"), *((str(k), "f8") for k in range(2, len(names)))])
            known: dict[int | str, Callable[[str], float]] = dict.fromkeys(range(2, len(names)), _number)
            table = np.loadtxt(file, delimiter=",", dtype=kinds, comments=None, ndmin=1, converters=known)
    except (OSError, ValueError):
        return None
    points = {name: table[str(k)] for k, name in enumerate(names[3:], start=3)}
    return Forecasts(table["0"], table["1"], table["2"], points)


def _number(text: str) -> float:
    return float(text) if text else float("nan")


def _plain(value: float) -> str:
    """Whole seconds as whole numbers, others to ten digits, nothing for what is unknown."""
    return "" if value != value else f"{value:.10g}"
