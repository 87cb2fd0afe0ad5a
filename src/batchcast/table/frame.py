"""Columns as a pandas DataFrame, and as the small HTML table that notebooks show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ..errors import UsageError
from .nominal import Nominal


def data_frame(columns: Mapping[str, Any], attrs: Mapping[str, Any] | None = None) -> Any:
    """A pandas DataFrame of the columns, names as categories; UsageError with the way out where pandas is missing.

    >>> data_frame({"user_id": Nominal.encode(["ada", None]), "run_time": [5.0, 6.0]}).shape
    (2, 2)
    """
    try:
        import pandas
    except ImportError:
        raise UsageError("pandas is needed for data frames", hint="pip install pandas") from None
    plain = {
        name: pandas.Categorical.from_codes(values.codes, list(values.categories))
        if isinstance(values, Nominal)
        else values
        for name, values in columns.items()
    }
    frame = pandas.DataFrame(plain)
    frame.attrs.update(attrs or {})
    return frame


def html_table(columns: Mapping[str, Sequence[Any]], title: str = "") -> str:
    """An HTML table of a few rows; what is unknown is empty, every text escaped.

    >>> html_table({"name": ["<b>", None]})
    '<table><thead><tr><th>name</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr><tr><td></td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(str(name))}</th>" for name in columns)
    rows = ["".join(f"<td>{_cell(value)}</td>" for value in row) for row in zip(*columns.values())]
    caption = f"<caption>{escape(title)}</caption>" if title else ""
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 or value.is_integer() else f"{value:.3g}"
    return escape(str(value))
