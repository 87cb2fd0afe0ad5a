# SPDX-License-Identifier: Apache-2.0
"""Shared code of reproductions: finds logs, stores parts of long computations, compares our gains with the printed
gains.

Each gain has a confidence interval, which shows whether the gain exceeds the random variation on its log.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any, ClassVar

import numpy as np

from batchcast.cli.output import document, dumps, emit, plain, say, show_blocks, write_text
from batchcast.errors import BatchcastError, InputError
from batchcast.metrics.paired import LEAST_GROUPS, PairedDifference, paired_differences
from batchcast.predict.adapters import OfJob
from batchcast.predict.protocol import Prediction
from batchcast.report.blocks import Section, Table, columns_of, page
from batchcast.sweep.task import DECIDING, own_code
from batchcast.trace.whole_file import folder, whole_file
from batchcast.units import counted
from batchcast.version import __version__


def shared_folder() -> Path:
    """Return BATCHCAST_SHARED, else the folder `shared` in or above the working directory; InputError if neither
    exists."""
    named = os.environ.get("BATCHCAST_SHARED")
    if named:
        return Path(named)
    for above in (Path.cwd(), *Path.cwd().parents):
        if (above / "shared" / "traces").is_dir():
            return above / "shared"
    raise InputError(
        "the papers' logs were not found: no folder shared/traces here or above",
        hint="set BATCHCAST_SHARED to the folder that contains traces/ (Parallel Workloads Archive, *.swf.gz)",
    )


def provenance(hashes: Mapping[str, str], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the provenance on a reproduction's page: command, version, logs with their sha256, settings."""
    command = shlex.join(["batchcast", *sys.argv[1:]])
    return {"command": command, "batchcast": __version__, "logs (sha256)": dict(hashes), "settings": dict(settings)}


def precomputed(points: np.ndarray) -> OfJob:
    """Return a predictor that returns, by the job's row, predictions (s) that were computed earlier."""
    known = points.tolist()
    return OfJob(lambda job: Prediction(max(known[job.row], 1.0)))


DECIDE = (*DECIDING, "evaluation")  # names of the code files on which the results of a part depend


class ComputedParts:
    """Computes each part of a result once and stores the part in `folder` as NAME.json (written to a temporary file,
    then renamed).

    A stored file is used if the code (files in `DECIDE`) and everything in `made_of` (checksums of logs, settings) are
    unchanged. If they changed, or with `again`, the part is computed again. A part's value must consist of JSON values
    or NaN, so that reading the file returns an equal value. `cpu_s` is the total CPU time of the parts, including parts
    of earlier runs; `reused` and `computed` count the parts. BatchcastError if the folder cannot be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     parts = ComputedParts(Path(place))
    ...     first = parts.part("sum", {"n": 3}, lambda: sum(range(3)))
    ...     (first, parts.part("sum", {"n": 3}, lambda: 1 / 0), parts.computed, parts.reused)
    (3, 3, 1, 1)
    """

    def __init__(self, folder: Path, again: bool = False) -> None:
        self.folder, self.again = folder, again
        self.cpu_s, self.reused, self.computed = 0.0, 0, 0

    def part(self, name: str, made_of: Mapping[str, Any], compute: Callable[[], Any]) -> Any:
        """Return the part's value: read from its file, or computed and then stored."""
        wanted = json.loads(json.dumps({"batchcast": own_code(DECIDE, __package__), **made_of}))
        path = self.folder / f"{name}.json"
        held = None if self.again else _read(path)
        if held is not None and held["made_of"] == wanted:
            self.reused += 1
        else:
            begun = process_time()
            value = compute()
            held = {"made_of": wanted, "cpu_s": process_time() - begun, "value": value}
            _write(path, held)
            self.computed += 1
        self.cpu_s += held["cpu_s"]
        return held["value"]


def _read(path: Path) -> dict[str, Any] | None:
    """Return the content of a stored part; None if there is no file or it has another format."""
    with suppress(OSError, ValueError):
        held = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(held, dict) and {"made_of", "cpu_s", "value"} <= held.keys():
            return held
    return None


def _write(path: Path, held: Mapping[str, Any]) -> None:
    """Store a part in its file; BatchcastError if the folder cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as beside:
            beside.write_text(json.dumps(held, default=plain), encoding="utf-8")
    except OSError as error:
        raise BatchcastError(f"{path}: cannot be written: {error.strerror}", hint="another place after -o") from error


@dataclass(eq=False)
class Gathering:
    """Base class for a reproduction: computes its tables and figures, and writes them to the folder `output`.

    `first` is the number of jobs of each log that are used; None means all jobs. With `again`, parts that an earlier
    run stored are computed again. A subclass sets the paper's name, the title of the page, the names of its tables
    (`table_names`), and sentences about how it interprets the paper (`reading`).
    """

    output: str
    again: bool
    first: int | None

    paper: ClassVar[str]
    title: ClassVar[str]
    table_names: ClassVar[tuple[str, ...]]
    reading: ClassVar[Sequence[str]]

    def __post_init__(self) -> None:
        self.parts = ComputedParts(Path(self.output) / "parts", self.again)
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in self.table_names}
        self.pictures: list[Any] = []
        self.hashes: dict[str, str] = {}

    def part(self, log: str, name: str, made_of: Mapping[str, Any], compute: Callable[[], Any]) -> Any:
        """Return a part of the results on one log: read from its file, or computed and then stored."""
        return self.parts.part(name, {"log": self.hashes[log], "first": self.first, **made_of}, compute)

    def print_results(
        self,
        gather: Callable[[Path], tuple[Sequence[str], Sequence[Table]]],
        settings: dict[str, Any],
        as_json: bool,
        own: str | None = None,
    ) -> None:
        """Let `gather` compute the results; write the results as a page and a JSON file, and print them.

        `gather` takes the folder of the logs, or the folder of the user's own log `own`, and returns findings and
        tables. This method prints on stderr how many parts were computed, and where the results are.
        """
        traces, parts = Path(own).parent if own else shared_folder() / "traces", self.parts
        with folder(self.output) as place:
            summary, tables = gather(traces)
            settings["cpu_s"] = round(parts.cpu_s)
            results = [{"table": table, **row} for table, rows in self.rows.items() for row in rows]
            log = {"source": own or str(traces), "sha256": self.hashes}
            doc = document(f"reproduce-{self.paper}", log, settings, summary, results)
            (place / "result.json").write_text(dumps(doc))
            sections = [
                Section("In short", list(summary)),
                *(Section(table.caption, [table]) for table in tables),
                Section("Pictures", self.pictures),
                Section("How the paper was read", list(self.reading)),
            ]
            (place / "index.html").write_text(page(self.title, sections, provenance(self.hashes, settings)))
        say(
            f"{parts.computed} parts computed, {parts.reused} found in {self.output}/parts; "
            f"all parts together took {parts.cpu_s:,.0f} s of CPU"
        )
        say(f"page: {self.output}/index.html, numbers: {self.output}/result.json")
        if as_json:
            emit(doc)
        else:
            show_blocks(*tables, *summary)


OUTSIDE, INSIDE, OTHER = "outside", "inside", "outside, the other way"


@dataclass(frozen=True, slots=True)
class Gain:
    """A gain that the paper prints, with our measured values of the method and of the reference method for each job
    (n,).

    `printed` is a share of the reference method's mean (NaN if the paper prints no gain for this log). A gain is 1 -
    mean / reference mean, with the opposite sign if `higher` values are better; with `points`, the gain is the
    difference of the means.
    """

    method: str
    against: str
    measure: str
    values: np.ndarray
    reference: np.ndarray
    printed: float = float("nan")
    higher: bool = False
    points: bool = False
    root: bool = False
    """Whether the values are squared errors; the gain is then computed from the roots of their means."""

    def share(self, base: float, difference: float) -> float:
        """Convert a difference of means to a gain; `base` is the mean of the reference method."""
        sign = 1.0 if self.higher else -1.0
        if self.points:
            return sign * difference
        if not base > 0:
            return float("nan")
        if self.root:
            return 1.0 - float(np.sqrt(max(1.0 + difference / base, 0.0)))
        return sign * difference / base


def gain_rows(gains: Sequence[Gain], group: np.ndarray, seed: int = 0) -> list[dict[str, Any]]:
    """Return a row per gain: our gain with its 90 % interval over groups of jobs, the printed gain, and a verdict.

    The groups of jobs are one user's jobs of one week (`bursts.user_weeks`). `noise` is half the length of the
    interval; a smaller printed gain cannot be distinguished from no gain on this log. The interval describes the
    difference of the means and treats the reference's mean as exact, so it covers the noise of the gain only in part.
    """
    rows = []
    for gain in gains:
        known = ~np.isnan(gain.values) & ~np.isnan(gain.reference)
        one = paired_differences(gain.values[None], gain.reference, group, np.random.default_rng(seed))[0]
        share = partial(gain.share, float(gain.reference[known].mean()) if known.any() else float("nan"))
        ends = sorted((share(one.low), share(one.high)))
        row = {"method": gain.method, "against": gain.against, "measure": gain.measure, "jobs": one.jobs}
        row |= {"groups": one.groups, "gain": share(one.difference), "gain_low": ends[0], "gain_high": ends[1]}
        noise = (ends[1] - ends[0]) / 2
        row |= {"printed_gain": gain.printed, "noise": noise, "largest_share": one.largest_share}
        row |= {"points": gain.points, "decided_by": _decided_by(one, share(one.without), gain.points)}
        row["ours"] = _words(*ends)
        row["printed_stands"] = "" if np.isnan(gain.printed + noise) else ("no", "yes")[abs(gain.printed) > noise]
        rows.append(row)
    return rows


def _decided_by(one: PairedDifference, without: float, points: bool) -> str:
    """Return a sentence about the group of jobs that makes up more than a fifth of a difference; empty if there is
    none."""
    if not one.is_decided_by_one:
        return ""
    jobs = counted(one.largest_jobs)
    rest = "unknown" if np.isnan(without) else _amount(without, points)
    return f"{100 * one.largest_share:.0f} % of it is {jobs} of one group, without which the gain is {rest}"


def _amount(value: float, points: bool) -> str:
    """Return a gain as text with its unit.

    >>> _amount(0.125, False), _amount(-0.125, True)
    ('12.5 %', '-12.5 points')
    """
    return f"{round(100 * value, 1) + 0.0:.1f} {'points' if points else '%'}"


def _words(low: float, high: float) -> str:
    """Return whether the interval of a gain contains zero, as a verdict in words.

    >>> _words(0.1, 0.2), _words(-0.1, 0.2), _words(-0.2, -0.1), _words(float("nan"), float("nan"))
    ('outside', 'inside', 'outside, the other way', 'too few groups')
    """
    if np.isnan(low) or np.isnan(high):
        return "too few groups"
    if low <= 0.0 <= high:
        return INSIDE
    return OUTSIDE if low > 0.0 else OTHER


def gain_table(rows: Sequence[Mapping[str, Any]], naming: Sequence[tuple[str, str]], caption: str) -> Table:
    """Return the rows as a table; `naming` has (key, title) of the columns that identify a row's log."""
    columns = columns_of(
        *map("|".join, naming), "method", "against", "measure", "gain_words|gain", "interval|90 % interval",
        "ours|zero vs interval", "printed_words|printed", "printed_stands|printed beyond the noise",
        "groups|groups|count",
    )  # fmt: skip
    words = (("gain_words", "gain"), ("printed_words", "printed_gain"))
    cells = [
        {**row, "interval": _interval(row)}
        | {key: None if row[gain] != row[gain] else _amount(row[gain], row.get("points", False)) for key, gain in words}
        for row in rows
    ]
    note = (
        "Gain: relative reduction of the error of the method in column against; for shares (UR, PU, identified, good) "
        "the difference in points. Intervals are computed over groups: one user's submissions in one week. Outside: "
        "the interval does not contain zero. Printed beyond the noise: the printed gain is larger than half the length "
        "of our interval, so that a log like this one could show it."
    )
    one_group = [
        f"{' '.join(str(row[key]) for key, _ in naming)}: {row['method']} against {row['against']}, {row['measure']}: "
        f"{row['decided_by']}."
        for row in rows
        if row.get("decided_by")
    ]
    return Table(caption, columns, cells, " ".join([note, *one_group]))


def _interval(row: Mapping[str, Any]) -> str:
    """Return the 90 % interval of a gain as text, or the reason why there is none."""
    low, high = row["gain_low"], row["gain_high"]
    if low != low:
        return f"none: {row['groups']} groups, {LEAST_GROUPS} are needed"
    return f"{100 * low:.1f} to {_amount(high, row['points'])}"


def write_page(path: Path, title: str, parts: Sequence[Section], made_by: Mapping[str, Any]) -> None:
    """Write the HTML page of a reproduction, and print its path on stderr."""
    write_text(path, page(title, parts, made_by))
    say(f"page: {path}")
