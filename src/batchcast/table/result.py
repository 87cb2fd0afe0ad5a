# SPDX-License-Identifier: Apache-2.0
"""What every result of the Python API can do: be drawn, become a frame of pandas or polars, be shown in a notebook.

A result says what its columns and its pictures are; all else is here, once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import check_word
from .columns import Nominal
from .exchange import by_column, data_frame, html_table, polars_frame, to_arrow

Picture = Callable[..., Any]
Columns = Mapping[str, Any]
FIRST = 10
"""Rows of one job each that a notebook shows."""


class Result:
    """A result: `plot`, `to_polars`, `to_pandas`, an Arrow stream, and a table in notebooks.

    A class of its own gives `columns` and `_pictures`; `tests/unit/test_results.py` goes over all that are public.
    """

    __slots__ = ()

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
