# SPDX-License-Identifier: Apache-2.0
"""The base class of all results of the Python API, with pictures, data frames, Arrow, and tables for notebooks.

A result class defines its columns and pictures; this module implements the other methods for all results. The module
also converts a trace to a data frame, to a small HTML table, and to Arrow with the provenance in the metadata.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from html import escape
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from ..errors import UsageError, check_word, how_to_install
from .columns import LogInfo, Nominal


def _plain(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns as arrays or as lists of one type."""
    return {name: values if isinstance(values, np.ndarray) else _one_kind(values) for name, values in columns.items()}


def _one_kind(values: Any) -> list[Any]:
    """Return the values of a column as a list of one type; values of several types become texts."""
    plain = values.decode() if isinstance(values, Nominal) else list(values)
    kinds = {type(value) for value in plain if value is not None}
    if kinds <= {int, float}:
        return [float(value) if float in kinds and value is not None else value for value in plain]
    return plain if len(kinds) <= 1 else [None if value is None else str(value) for value in plain]


def by_column(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Convert result rows to columns.

    >>> by_column([{"a": 1}, {"a": 2, "b": "x"}])
    {'a': [1, 2], 'b': [None, 'x']}
    """
    # A key that a row lacks becomes None. A mapping from measures to objects, such as `differences`, becomes columns
    # named after each measure: `mae_s_difference` is the value, `mae_s_difference_low` the lower end of its interval.
    rows = [flat(row) for row in rows]
    return {key: [row.get(key) for row in rows] for key in dict.fromkeys(key for row in rows for key in row)}


def flat(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row as flat values, with the column names of a data frame.

    >>> from batchcast.metrics.paired import Difference
    >>> [*flat({"jobs": 9, "differences": {"mae_s": Difference(-5.0, -8.0, -2.0)}})][:4]
    ['jobs', 'mae_s_difference', 'mae_s_difference_low', 'mae_s_difference_high']
    """
    columns: dict[str, Any] = {}
    for key, value in row.items():
        by_measure = value.items() if isinstance(value, Mapping) else ()
        named = {f"{measure}_{key.removesuffix('s')}": each for measure, each in by_measure} or {key: value}
        for name, stated in named.items():
            if not is_dataclass(stated) and not isinstance(stated, Mapping):
                columns[name] = stated
                continue
            parts = stated if isinstance(stated, Mapping) else {f.name: getattr(stated, f.name) for f in fields(stated)}
            columns |= {name if part == "value" else f"{name}_{part}": each for part, each in parts.items()}
    return columns


def html_table(columns: Mapping[str, Sequence[Any]], title: str = "") -> str:
    """Render a few rows as an HTML table, with all texts escaped.

    >>> html_table({"name": ["<b>", None]})
    '<table><thead><tr><th>name</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr><tr><td></td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(str(name))}</th>" for name in columns)
    rows = ["".join(f"<td>{_cell(value)}</td>" for value in row) for row in zip(*columns.values())]
    caption = f"<caption>{escape(title)}</caption>" if title else ""
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    """Return a value as the text of an HTML cell."""
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 or value.is_integer() else f"{value:.3g}"
    return escape(str(value))


METADATA = b"batchcast"
VERSION = 1
NEEDED = "pyarrow is needed for Arrow and Parquet"


def to_arrow(trace: Any) -> Any:
    """Convert a trace or a result to a pyarrow Table.

    Parameters
    ----------
    trace
        A Trace, or any object with `columns()`, such as a Schedule or Forecasts.

    Returns
    -------
    pyarrow.Table
        One row per job. Names are dictionary-encoded and unknown values are null. If `trace` is a Trace, the metadata
        of the table's schema contains its `LogInfo`.

    Raises
    ------
    UsageError
        If pyarrow is not installed.

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
    """Convert a LogInfo to types that JSON has.

    Unknown numbers become None, and `names` becomes a list of pairs, because JSON keys can only be texts.
    """
    plain = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(info).items()}
    plain["names"] = {column: list(map(list, names.items())) for column, names in info.names.items()}
    return plain


def arrow() -> tuple[Any, Any]:
    """Import pyarrow and its Parquet module; UsageError with the install command if one of them is missing."""
    return _needed("pyarrow", NEEDED, "parquet"), _needed("pyarrow.parquet", NEEDED, "parquet")


def _needed(module: str, problem: str, extra: str) -> Any:
    """Return an imported module; UsageError with the install command of the extra if it is not installed."""
    try:
        return import_module(module)
    except ImportError:
        raise UsageError(problem, hint=how_to_install(extra)) from None


def _dictionary(pa: Any, values: Nominal, is_mixed: bool) -> Any:
    """Return names as an Arrow dictionary array; mixed categories are stored as JSON texts."""
    categories = [json.dumps(c) for c in values.categories] if is_mixed else list(values.categories)
    kind = pa.int64() if categories and isinstance(categories[0], int) else pa.string()
    return pa.DictionaryArray.from_arrays(pa.array(values.codes, mask=values.codes < 0), pa.array(categories, kind))


Picture = Callable[..., Any]
Columns = Mapping[str, Any]
FIRST = 10
"""Number of rows that a notebook shows of a table with one row per job."""
FITS = 14
"""Number of rows of a table in `summary`, which fits one screen."""


class Result:
    """Base class of results: `summary`, `plot`, `to_polars`, `to_pandas`, an Arrow stream, a table in notebooks.

    `print` shows the main columns of at most 20 rows.

    Notes
    -----
    A subclass defines `columns` and `_pictures`. A subclass can set `_printed` to the columns that `print` shows.
    """

    __slots__ = ()
    _printed: ClassVar[tuple[str, ...]] = ()

    def columns(self) -> Columns:
        """Return the columns by name; all have the same length."""
        raise NotImplementedError

    def _pictures(self) -> Mapping[str, Picture]:
        """Returns, by name, the functions that draw each picture on an Axes `ax`; the first picture is the default."""
        raise NotImplementedError

    def _attrs(self) -> Mapping[str, Any]:
        """Return the values for the `attrs` of a pandas frame."""
        return {}

    def _tables(self) -> Mapping[str, Columns]:
        """Return the tables that a notebook shows, by caption."""
        columns = self.columns()
        rows = len(next(iter(columns.values()), ()))
        caption = repr(self).strip("<>") + (f", the first {FIRST}" if rows > FIRST else "")
        return {caption: {name: _first(values) for name, values in columns.items()}}

    def _summary(self) -> Mapping[str, Columns]:
        """Return the tables of `summary`, by caption."""
        return self._tables()

    def summary(self) -> str:
        """Return the main results as text that fits one screen: tables of at most 14 rows.

        A result with a row per method, policy or variant shows its main columns. A result with a row per job shows, for
        each column, the number of known values with their 10 %, 50 % and 90 % quantiles.

        Examples
        --------
        >>> from batchcast import Trace
        >>> print(Trace.from_arrays({"submit_time": [0.0, 5.0], "run_time": [60.0, 180.0]}).summary().split("\\n")[-1])
        run_time      2  1 min 12 s  2 min   2 min 48 s
        """
        from .text import text_table  # imported here because few commands need this module

        return "\n\n".join(text_table(table, title, self._printed, FITS) for title, table in self._summary().items())

    def _described(self) -> Mapping[str, Columns]:
        """Return the summary of a result with a row per job."""
        from .text import described

        caption = repr(self).strip("<>").partition(": ")[0].partition(", ")[0]  # `1,000 jobs` is a number with a noun
        return {caption: described(self.columns())}

    @property
    def pictures(self) -> tuple[str, ...]:
        """Names of the pictures that `plot` can draw; the first is the default."""
        return tuple(self._pictures())

    def plot(self, picture: str = "", *, ax: Any = None, **options: Any) -> Any:
        """Draw the result with matplotlib.

        Parameters
        ----------
        picture
            Name of the picture, one of `pictures`. Default: the first.
        ax
            The Axes to draw on. By default, new Axes are created.
        options
            Options of the picture, such as `begin` and `end` of a Gantt chart or `metric` of a picture of differences.

        Returns
        -------
        matplotlib.axes.Axes
            The Axes; `.figure.savefig("name.pdf")` writes the picture to a file.

        Raises
        ------
        UsageError
            If the result does not have this picture, or matplotlib (the extra `notebook`) is not installed.

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
        """Return a pandas DataFrame of `columns()`, with names as categoricals.

        Raises
        ------
        UsageError
            If pandas (the extra `notebook`) is not installed.
        """
        pandas = _needed("pandas", "pandas is needed for data frames", "notebook")
        plain = dict(self.columns())
        for name, values in plain.items():
            if isinstance(values, Nominal):
                plain[name] = pandas.Categorical.from_codes(values.codes, list(values.categories))
        frame = pandas.DataFrame(plain)
        frame.attrs.update(self._attrs())
        return frame

    def to_polars(self) -> Any:
        """Return a polars DataFrame of `columns()`, with null for unknown values.

        Raises
        ------
        UsageError
            If polars (the extra `notebook`) is not installed.
        """
        polars = _needed("polars", "polars is needed for its data frames", "notebook")
        return polars.DataFrame(_plain(self.columns()), nan_to_null=True, infer_schema_length=None)

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """Return the Arrow C stream of `columns()`, through which polars, duckdb and pyarrow read a result."""
        return to_arrow(self).__arrow_c_stream__(requested_schema)

    def __str__(self) -> str:
        from .text import text_table  # imported here because few commands need this module

        return "\n\n".join(text_table(columns, caption, self._printed) for caption, columns in self._tables().items())

    def _repr_html_(self) -> str:
        return "".join(html_table(columns, caption) for caption, columns in self._tables().items())


@dataclass(frozen=True, slots=True, repr=False)
class Rows(Result):
    """A result that consists of flat rows, each a dictionary. A missing key means that the value is unknown."""

    rows: Sequence[Mapping[str, Any]]

    def columns(self) -> Columns:
        """Return the result's rows as columns."""
        return by_column(self.rows)

    def _tables(self) -> Mapping[str, Columns]:
        return {repr(self).strip("<>"): self.columns()}


def _first(values: Any) -> Sequence[Any]:
    head: Any = Nominal(values.codes[:FIRST], values.categories).decode() if isinstance(values, Nominal) else values
    return list(head[:FIRST].tolist() if hasattr(head, "tolist") else head[:FIRST])
