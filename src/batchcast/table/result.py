# SPDX-License-Identifier: Apache-2.0
"""What every result of the Python API can do: be drawn, become a frame of pandas or polars, be shown in a notebook.

A result says what its columns and its pictures are; all else is here, once. So is a trace as other tools take it: a
data frame, the small HTML table that notebooks show, and Arrow with the provenance in its metadata.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any, ClassVar

import numpy as np

from ..errors import UsageError, check_word, how_to_install
from .columns import LogInfo, Nominal


def data_frame(columns: Mapping[str, Any], attrs: Mapping[str, Any] | None = None) -> Any:
    """A pandas DataFrame of the columns, names as categories; UsageError with the way out where pandas is missing.

    >>> data_frame({"user_id": Nominal.encode(["ada", None]), "run_time": [5.0, 6.0]}).shape
    (2, 2)
    """
    try:
        import pandas
    except ImportError:
        raise UsageError("pandas is needed for data frames", hint=how_to_install("notebook")) from None
    plain = {
        name: pandas.Categorical.from_codes(values.codes, list(values.categories))
        if isinstance(values, Nominal)
        else values
        for name, values in columns.items()
    }
    frame = pandas.DataFrame(plain)
    frame.attrs.update(attrs or {})
    return frame


def polars_frame(columns: Mapping[str, Any]) -> Any:
    """A polars DataFrame of the columns, unknown as null; UsageError with the way out where polars is missing.

    >>> polars_frame({"user_id": Nominal.encode(["ada", None]), "run_time": np.array([5.0, np.nan])}).rows()
    [('ada', 5.0), (None, None)]
    """
    try:
        import polars
    except ImportError:
        raise UsageError("polars is needed for its data frames", hint=how_to_install("notebook")) from None
    return polars.DataFrame(_plain(columns), nan_to_null=True, infer_schema_length=None)


def _plain(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {name: values if isinstance(values, np.ndarray) else _one_kind(values) for name, values in columns.items()}


def _one_kind(values: Any) -> list[Any]:
    """Values of a column that holds one kind: as they are, or as texts where they are of several."""
    plain = values.decode() if isinstance(values, Nominal) else list(values)
    kinds = {type(value) for value in plain if value is not None}
    if kinds <= {int, float}:
        return [float(value) if float in kinds and value is not None else value for value in plain]
    return plain if len(kinds) <= 1 else [None if value is None else str(value) for value in plain]


def by_column(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Flat rows as columns, None where a row has no such key.

    >>> by_column([{"a": 1}, {"a": 2, "b": "x"}])
    {'a': [1, 2], 'b': [None, 'x']}
    """
    return {key: [row.get(key) for row in rows] for key in dict.fromkeys(key for row in rows for key in row)}


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


METADATA = b"batchcast"
VERSION = 1
NEEDED = "pyarrow is needed for Arrow and Parquet"


def to_arrow(trace: Any) -> Any:
    """A trace as a pyarrow Table: columns, extra columns, LogInfo in the schema's metadata; unknown becomes null.

    Parameters
    ----------
    trace
        A Trace, or anything else that has `columns()` (a Schedule, Forecasts), which becomes a Table of those.

    Returns
    -------
    pyarrow.Table
        One row a job; names are dictionary-coded. O(rows).

    Raises
    ------
    UsageError
        Where pyarrow is not installed.

    Examples
    --------
    >>> from batchcast import Trace
    >>> to_arrow(Trace.from_arrays({"submit_time": [0.0, 5.0], "user_id": ["ada", None]}))["user_id"].to_pylist()
    ['ada', None]
    """
    pa, _ = arrow()
    if not isinstance(getattr(trace, "info", None), LogInfo):
        return pa.table(_plain(trace.columns()))
    arrays, mixed = {}, []
    for name in trace.names:
        values = trace.column(name)
        if isinstance(values, Nominal):
            is_mixed = len({type(category) for category in values.categories}) > 1
            mixed += [name] if is_mixed else []
            arrays[name] = _dictionary(pa, values, is_mixed)
        elif values.dtype.kind == "f":
            arrays[name] = pa.array(values, mask=np.isnan(values))
        else:
            arrays[name] = pa.array(values.tolist() if values.dtype.kind == "U" else values)
    nominal = [name for name in trace.names if isinstance(trace.column(name), Nominal)]
    note = {"version": VERSION, "info": info_to_json(trace.info), "nominal": nominal, "mixed": mixed}
    return pa.table(arrays).replace_schema_metadata({METADATA: json.dumps(note, allow_nan=False).encode()})


def info_to_json(info: LogInfo) -> dict[str, Any]:
    """LogInfo in JSON's own types: unknown numbers null, `names` as pairs since JSON keys are text only."""
    plain = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(info).items()}
    plain["names"] = {column: list(map(list, names.items())) for column, names in info.names.items()}
    return plain


def arrow() -> tuple[Any, Any]:
    """pyarrow and its Parquet module; UsageError with the way out where they are not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError(NEEDED, hint=how_to_install("parquet")) from None
    return pyarrow, pyarrow.parquet


def _dictionary(pa: Any, values: Nominal, is_mixed: bool) -> Any:
    categories = [json.dumps(c) for c in values.categories] if is_mixed else list(values.categories)
    kind = pa.int64() if categories and isinstance(categories[0], int) else pa.string()
    codes = pa.array(values.codes, mask=values.codes < 0)
    return pa.DictionaryArray.from_arrays(codes, pa.array(categories, kind))


Picture = Callable[..., Any]
Columns = Mapping[str, Any]
FIRST = 10
"""Rows of one job each that a notebook shows."""


class Result:
    """A result: `plot`, `to_polars`, `to_pandas`, an Arrow stream, and a table in notebooks.

    `print` shows the main columns of at most 20 rows. A class of its own gives `columns` and `_pictures`, and with
    `_printed` the columns that `print` shows; `tests/unit/results/test_results.py` goes over all public ones.
    """

    __slots__ = ()
    _printed: ClassVar[tuple[str, ...]] = ()

    def columns(self) -> Columns:
        """Columns of one length by name."""
        raise NotImplementedError

    def _pictures(self) -> Mapping[str, Picture]:
        """What draws each picture on `ax=`, by name; the first is drawn where none is named."""
        raise NotImplementedError

    def _attrs(self) -> Mapping[str, Any]:
        """What a pandas frame carries beside its columns."""
        return {}

    def _tables(self) -> Mapping[str, Columns]:
        """What a notebook shows, by caption."""
        columns = self.columns()
        rows = len(next(iter(columns.values()), ()))
        caption = repr(self).strip("<>") + (f", the first {FIRST}" if rows > FIRST else "")
        return {caption: {name: _first(values) for name, values in columns.items()}}

    @property
    def pictures(self) -> tuple[str, ...]:
        """The pictures that `plot` can draw; the first is the usual one."""
        return tuple(self._pictures())

    def plot(self, picture: str = "", *, ax: Any = None, **options: Any) -> Any:
        """Draw the result with matplotlib.

        Parameters
        ----------
        picture
            One of `pictures`, by default the first.
        ax
            The Axes to draw on, by default a new one.
        options
            What the picture takes besides: `begin` and `end` of a Gantt chart, `metric` of differences.

        Returns
        -------
        matplotlib.axes.Axes
            `.figure.savefig("name.pdf")` writes it.

        Raises
        ------
        UsageError
            For a picture that this result has not, or without matplotlib (the extra `notebook`).

        Examples
        --------
        >>> from batchcast import Trace
        >>> Trace.from_arrays({"submit_time": [0.0, 5.0], "run_time": [60.0, 90.0]}).plot().get_xlabel()
        'time (s)'
        """
        drawn = self._pictures()
        chosen = picture or next(iter(drawn))
        check_word("picture", chosen, drawn)
        return drawn[chosen](ax=ax, **options)

    def to_pandas(self) -> Any:
        """A pandas DataFrame of `columns()`, names as categories; UsageError without pandas (the extra `notebook`)."""
        return data_frame(self.columns(), self._attrs())

    def to_polars(self) -> Any:
        """A polars DataFrame of `columns()`, unknown as null; UsageError without polars (the extra `notebook`)."""
        return polars_frame(self.columns())

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """The Arrow C stream of `columns()`, by which polars, duckdb and pyarrow read a result."""
        return to_arrow(self).__arrow_c_stream__(requested_schema)

    def __str__(self) -> str:
        from .text import text_table  # few verbs print a result this way

        return "\n\n".join(text_table(columns, caption, self._printed) for caption, columns in self._tables().items())

    def _repr_html_(self) -> str:
        return "".join(html_table(columns, caption) for caption, columns in self._tables().items())


@dataclass(frozen=True, slots=True, repr=False)
class Rows(Result):
    """A result of flat rows, dictionaries of one value each; a key that a row lacks is unknown there."""

    rows: Sequence[Mapping[str, Any]]

    def columns(self) -> Columns:
        """The rows as columns."""
        return by_column(self.rows)

    def _tables(self) -> Mapping[str, Columns]:
        return {repr(self).strip("<>"): self.columns()}


def _first(values: Any) -> Sequence[Any]:
    """The first values of a column, plain."""
    head: Any = Nominal(values.codes[:FIRST], values.categories).decode() if isinstance(values, Nominal) else values
    return list(head[:FIRST].tolist() if hasattr(head, "tolist") else head[:FIRST])
