# SPDX-License-Identifier: Apache-2.0
"""What `batchcast evaluate` left, read again.

The numbers of a report, and what each method said of each scored job.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError, input_error
from .whole_file import whole_file

VERB, VERSION = "evaluate", 1
AGAIN = "batchcast evaluate LOG -o FOLDER, then its FOLDER"


def read_result(path: str | Path) -> tuple[dict[str, Any], Path]:
    """The document of a report folder or of its result.json, and the folder it lies in.

    Raises InputError that says what the file is where it is not a result of `evaluate` of a version known here.
    """
    given = Path(path)
    place = given / "result.json" if given.is_dir() else given
    try:
        text = place.read_text(encoding="utf-8")
    except FileNotFoundError:
        what = "is a folder without result.json, so no report" if given.is_dir() else "does not exist"
        raise input_error(str(path), what, accepted="a report's folder or its result.json", hint=AGAIN) from None
    except UnicodeDecodeError:
        raise input_error(str(place), "is not text, so no result.json", hint=AGAIN) from None
    except OSError as error:
        raise InputError(f"{place}: cannot be read ({error.strerror or error})") from None
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise input_error(str(place), f"is not JSON ({error.msg})", line=error.lineno, hint=AGAIN) from None
    _check(document, str(place))
    return document, place.parent


def _check(document: Any, name: str) -> None:
    schema = document.get("schema") if isinstance(document, Mapping) else None
    parts = schema.split("/") if isinstance(schema, str) else []
    if len(parts) != 3 or parts[0] != "batchcast":
        raise input_error(name, "is JSON, but not a document of batchcast", value=schema, hint=AGAIN)
    if parts[1] != VERB:
        raise input_error(
            name,
            f"is what `batchcast {parts[1]}` printed",
            value=schema,
            accepted=f"batchcast/{VERB}/{VERSION}",
            hint=AGAIN,
        )
    if parts[2] != str(VERSION):
        raise input_error(
            name, "is of another version", value=schema, accepted=f"batchcast/{VERB}/{VERSION}",
            hint="evaluate both logs with one version of batchcast",
        )  # fmt: skip
    rows = document.get("results")
    whole = isinstance(rows, list) and all(isinstance(row, dict) and "part" in row for row in rows)
    if not whole or not all(isinstance(document.get(key), dict) for key in ("log", "settings")):
        raise input_error(name, "lacks log, settings or results: it was cut or edited", hint=AGAIN)


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
