# SPDX-License-Identifier: Apache-2.0
"""The text table that `print(result)` shows. The name of a column determines the unit of its values."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..columns import COLUMNS
from ..units import format_memory, span
from .columns import Nominal

ROWS = 20
WIDTH = 100
PLAIN = ("submit_time", "eligible_time", "start_time", "end_time", "job_id")
"""Instants and ids: shown without a unit, and not summarized."""
_CHANGE = re.compile(r"(.+)_(?:difference|change)(?:_low|_high)?")
_SHARE = re.compile(r".*_(?:share|rate)|share_.*|coverage_\d+|interval_\d+|users_better|users_worse|utilization")


def text_table(columns: Mapping[str, Sequence[Any]], caption: str, names: Sequence[str] = (), rows: int = ROWS) -> str:
    """Format the first rows as a table of at most 100 characters per line; the last line says how many rows and columns
    are not shown.

    >>> print(text_table({"predictor": ["a", "b"], "mae_s": [60.0, 5400.0], "apa": [0.5, None]}, "2 methods"))
    2 methods
    predictor       mae_s   apa
    a               1 min  0.50
    b          1 h 30 min     -
    """
    total = len(next(iter(columns.values()), ()))
    wanted = [name for name in names if name in columns] or list(columns)
    shown: list[list[str]] = []
    width = -2
    for name in wanted:
        cells = [name, *_cells(name, columns, rows)]
        widest = max(map(len, cells))
        width += 2 + widest
        if shown and width > WIDTH:
            break
        is_text = all(isinstance(value, str) or value is None for value in list(columns[name])[:rows])
        shown.append([text.ljust(widest) if is_text else text.rjust(widest) for text in cells])
    lines = [caption, *("  ".join(line).rstrip() for line in zip(*shown))]
    beyond = [f"{total - rows:,} more rows"] if total > rows else []
    beyond += [f"{len(columns) - len(shown)} more columns"] if len(columns) > len(shown) else []
    return "\n".join([*lines, f"({' and '.join(beyond)}: to_pandas() has them)"] if beyond else lines)


def _cells(name: str, columns: Mapping[str, Sequence[Any]], rows: int) -> list[str]:
    """Return the first values of a column as text, a difference with its confidence interval."""
    texts = [cell(name, value) for value in list(columns[name])[:rows]]
    low, high = (list(columns.get(f"{name}_{end}", ()))[:rows] for end in ("low", "high"))
    if not name.endswith("_difference") or not low or not high:
        return texts
    ends = [(cell(f"{name}_low", a), cell(f"{name}_high", b)) for a, b in zip(low, high)]
    return [text if "-" in pair else f"{text} ({pair[0]} to {pair[1]})" for text, pair in zip(texts, ends)]


def described(columns: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Describe columns that have one row per job: number of known values, and quantiles of numbers or the number of
    distinct names.

    >>> described({"run_time": np.array([60.0, np.nan, 180.0]), "user_id": ["ada", "bo", "ada"]})["median"]
    ['2 min', '2 names']
    """
    rows: list[tuple[object, ...]] = []
    for name, values in columns.items():
        if name in PLAIN:
            continue
        array = values.codes[values.codes >= 0] if isinstance(values, Nominal) else np.asarray(values)
        if isinstance(values, Nominal) or array.dtype.kind not in "fiub":
            known = [value for value in array.tolist() if value not in ("", None)]
            rows.append((name, len(known), "", f"{len(set(known)):,} names", ""))
            continue
        numbers = array[~np.isnan(array)].astype(float)
        ends = np.quantile(numbers, (0.1, 0.5, 0.9)).tolist() if len(numbers) else [math.nan] * 3
        rows.append((name, len(numbers), *(cell(name, value) for value in ends)))
    return {key: [row[k] for row in rows] for k, key in enumerate(("column", "known", "10 %", "median", "90 %"))}


def cell(name: str, value: Any) -> str:
    """Format a value in the unit that the column's name implies: seconds as a duration, shares in percent.

    >>> cell("mae_s", 90.0), cell("mae_s_difference", -90.0), cell("coverage_90", 0.912), cell("jobs", 4933)
    ('1 min 30 s', '-1 min 30 s', '91.2 %', '4,933')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, (str, bool)) or not hasattr(value, "__float__"):
        return str(value)
    change = _CHANGE.fullmatch(name)
    base = change[1] if change else name
    text = _amount(base, abs(value) if change else value)
    return text if not change else f"{'-' if value < 0 else '+'}{text}" if value else text


def _amount(name: str, value: Any) -> str:
    """Return an amount as text, in the unit that its column's name implies."""
    unit = COLUMNS[name].unit if name in COLUMNS else "s" if name.endswith("_s") else ""
    number = float(value)
    if name in PLAIN:
        return f"{value:.0f}"
    if not math.isfinite(number):
        return str(number)
    if unit == "s":
        return span(number) if number >= 0 else f"-{span(-number)}"
    if unit == "KiB":
        return format_memory(number)
    if _SHARE.fullmatch(name):
        return f"{100 * number:.1f} %"
    if number.is_integer() or abs(number) >= 1000:
        return f"{number:,.0f}"
    return f"{number:.1f}" if abs(number) >= 10 else f"{number:.2f}"
