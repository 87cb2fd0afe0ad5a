# SPDX-License-Identifier: Apache-2.0
"""Store a log in Apache Parquet: as one file, or as a folder with files by month of submission.

A folder is written as a stream, and can be read as a whole or period by period. The jobs are in files such as
`FOLDER/month=2026-01/part-000.parquet`. `FOLDER/_log.json` has the provenance, the order of the files, and the names of
every dictionary-coded column. Any program that reads Parquet can read the jobs. `answers_folder` writes the predictions
for all jobs as a folder too.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from ..ceilings import open_regular
from ..errors import UsageError, input_error
from ..formats import parquet
from ..table import LogInfo, Nominal, Trace
from ..table.arrow import arrow, info_from_json, info_to_json, to_arrow
from ..table.columns import SORTED, sorted_names
from ..table.trace import Names, joined, summed_notes, with_categories
from .source import ABOUT
from .whole_file import file_errors, temporary_path, whole_file


def write_parquet(trace: Trace, path: str | Path) -> None:
    """Write a log to a Parquet file, so that `read_parquet` returns the same log."""
    # Names are dictionary-coded, and unknown values are null. A column with whole numbers and texts is stored as JSON
    # values.
    _, pq = arrow()
    table = to_arrow(trace)
    with file_errors(path, "cannot be written"), whole_file(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)


def read_parquet(path: str | Path) -> Trace:
    """Read a log from a Parquet file, see `formats.parquet.read`."""
    with file_errors(path, "cannot be read"), open_regular(path) as file:
        data = file.read()
    return parquet.read([data], str(path))


@contextmanager
def answers_folder(path: str | Path, keys: Sequence[str]) -> Iterator[Callable[..., None]]:
    """A context manager that writes tables to a folder in Hive's layout, for example to
    `OUT/predictor=last_2/part-000.parquet`.

    The folder appears under its name when the block ends without an error; otherwise it is removed. The value of the
    context is a function that writes columns to a new file in the subfolder `KEY=NAME/...`. Its arguments are one name
    for each of the folder's keys, and the columns by name.
    """
    place, parts = Path(path), Counter[str]()
    if place.exists():
        raise UsageError(f"{place}: exists already", hint="name a folder that does not exist")
    pa, pq = arrow()
    with temporary_path(place) as under:
        with file_errors(place, "cannot be written"):
            under.mkdir(parents=True)

        def add(names: Sequence[str], columns: Mapping[str, Any]) -> None:
            name = "/".join(f"{key}={quote(value, safe='')}" for key, value in zip(keys, names))
            with file_errors(place, "cannot be written"):
                (under / name).mkdir(parents=True, exist_ok=True)
                file = under / name / f"part-{parts[name]:05d}.parquet"
                pq.write_table(pa.table(dict(columns)), file, compression="zstd")
            parts[name] += 1

        yield add
        under.rename(place)


VERSION = 1
JOBS_IN_MEMORY = 500_000
"""Number of jobs kept in memory while a folder is written. A month with more jobs becomes several files."""


class Part(NamedTuple):
    """One file of a folder: its path, its number of jobs, and the first and last submit time."""

    path: str
    jobs: int
    first: float
    last: float


@dataclass(frozen=True, slots=True)
class LogFolder:
    """A log in a folder.

    `largest_request` is the largest time limit in seconds (NaN if none is known); jobs without a limit are planned with
    it.
    """

    path: Path
    info: LogInfo
    parts: tuple[Part, ...]
    categories: Mapping[str, Names]
    largest_request: float

    def __len__(self) -> int:
        return sum(part.jobs for part in self.parts)

    def periods(self) -> Iterator[Trace]:
        """Yield the log file by file, in order of submission. Names have the same codes as in the whole log."""
        for part in self.parts:
            yield with_categories(read_parquet(self.path / part.path), self.categories).with_info(self.info)

    def to_trace(self) -> Trace:
        """Return the whole log, as if it had been read from one file."""
        return joined(list(self.periods()), self.info)


def is_folder(path: str | Path) -> bool:
    """Whether a path is a folder with a log."""
    return (Path(path) / ABOUT).is_file()


def open_folder(path: str | Path) -> LogFolder:
    """Open a folder of `write_folder` without reading the jobs; InputError if it is damaged or has no log."""
    place = Path(path)
    try:
        with file_errors(place, "cannot be read"):
            about = json.loads((place / ABOUT).read_text(encoding="utf-8"))
        if about["version"] > VERSION:
            raise input_error(str(place), "was written by a newer batchcast", accepted=f"at most version {VERSION}")
        return LogFolder(
            place,
            replace(info_from_json(about["info"]), source=str(place), format="parquet"),
            tuple(Part(*part) for part in about["parts"]),
            {name: tuple(names) for name, names in about["categories"].items()},
            math.nan if about["largest_request"] is None else float(about["largest_request"]),
        )
    except (ValueError, TypeError, KeyError) as error:
        raise input_error(f"{place}/{ABOUT}", f"is damaged ({error})", hint="write the folder again") from None


def write_folder(pieces: Iterable[Trace], path: str | Path) -> LogFolder:
    """Write a log that comes in pieces to a folder with files by month (UTC).

    Memory does not grow with the length of the log.
    """
    # The folder is written under a temporary name and renamed. The jobs of the pieces can be in any order; a month to
    # which jobs come late is sorted at the end.
    #
    # Memory contains about two pieces and `JOBS_IN_MEMORY` jobs, and for an unsorted log the largest month. Names are
    # stored once.
    place = Path(path)
    if place.exists() and not (place.is_dir() and not any(place.iterdir())):
        raise UsageError(f"{place}: exists already", hint="remove it, or name a folder that does not exist")
    with file_errors(place, "cannot be written"):
        place.parent.mkdir(parents=True, exist_ok=True)
        with temporary_path(place) as under:
            under.mkdir()
            about = _Writer(under).write(pieces)
            (under / ABOUT).write_text(json.dumps(about, allow_nan=False), encoding="utf-8")
            under.rename(place)
    return open_folder(place)


class _Writer:
    """Writes the Parquet files of a folder; collects the jobs of the current month in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.parts: dict[str, list[Part]] = {}
        self.names: dict[str, Names] = {}
        self.largest = -math.inf
        self.month = ""
        self.month_pieces: list[Trace] = []

    def write(self, pieces: Iterable[Trace]) -> dict[str, Any]:
        """Write all pieces and return the content of `_log.json`."""
        info, dropped, notes = LogInfo(), Counter[str](), list[str]()
        for piece in pieces:
            info = piece.info
            dropped.update(info.dropped)
            notes = summed_notes([*notes, *info.notes])
            self.take(piece)
        self.flush(all_of_it=True)
        # The files of a month overlap if a file does not end before the next file begins.
        late = [month for month, parts in self.parts.items() if any(a.last >= b.first for a, b in pairwise(parts))]
        for month in late:
            self.sort(month)
        notes += [SORTED] if late and SORTED not in notes else []
        parts = sorted((part for month in self.parts.values() for part in month), key=lambda part: part.first)
        return {
            "version": VERSION,
            "info": info_to_json(replace(info, dropped=dict(dropped), notes=tuple(notes))),
            "parts": parts,
            "categories": {name: list(names) for name, names in self.names.items()},
            "largest_request": self.largest if math.isfinite(self.largest) else None,
        }

    def take(self, piece: Trace) -> None:
        """Split a piece by month; write the previous month when a new one begins."""
        limits = piece.req_time[np.isfinite(piece.req_time) & (piece.req_time > 0)]
        self.largest = max(self.largest, float(limits.max(initial=-np.inf)))
        for name in piece.names:
            if isinstance(values := piece.column(name), Nominal):
                self.names[name] = sorted_names((*self.names.get(name, ()), *values.categories))
        for month, rows in _by_month(piece):
            if month != self.month:
                self.flush(all_of_it=True)
                self.month = month
            self.month_pieces.append(piece.take(rows))
            if sum(map(len, self.month_pieces)) > JOBS_IN_MEMORY:
                self.flush(all_of_it=False)

    def flush(self, all_of_it: bool) -> None:
        """Write the jobs in memory; unless `all_of_it`, jobs with the latest submit time stay in memory."""
        if not self.month_pieces:
            return
        trace = joined(self.month_pieces)
        times = trace.submit_time
        cut = len(trace) if all_of_it else int(np.searchsorted(times, times[-1]))
        self.month_pieces = [] if cut == len(trace) else [trace.take(np.arange(cut, len(trace)))]
        if cut:
            self.keep(self.month, trace.take(np.arange(cut)))

    def keep(self, month: str, trace: Trace) -> None:
        """Write one more file with jobs of a month."""
        parts = self.parts.setdefault(month, [])
        name = f"month={month}/part-{len(parts):03d}.parquet"
        (self.folder / name).parent.mkdir(exist_ok=True)
        write_parquet(trace.with_info(replace(trace.info, dropped={}, notes=())), self.folder / name)
        parts.append(Part(name, len(trace), float(trace.submit_time[0]), float(trace.submit_time[-1])))

    def sort(self, month: str) -> None:
        """Replace the overlapping files of a month by one sorted file."""
        parts = self.parts.pop(month)
        trace = joined([read_parquet(self.folder / part.path) for part in parts])
        for part in parts:
            (self.folder / part.path).unlink()
        self.keep(month, trace)


def _by_month(piece: Trace) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the rows of a piece by month of submission (UTC)."""
    days = np.floor((piece.submit_time + piece.info.unix_start) / 86400.0).astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    for month in np.unique(months):
        yield str(month), np.flatnonzero(months == month)
