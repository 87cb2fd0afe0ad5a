# SPDX-License-Identifier: Apache-2.0
"""Read a log: open the file, recognise its format by content, parse it, and record its provenance.

`Opening` reads, cleans and selects a log in the way that all commands and studies share.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np

from ..ceilings import Ceilings
from ..errors import InputError, NoAnswer, UsageError, input_error, worded
from ..events.machine_size import peak_procs
from ..formats import format_names
from ..formats.chunks import unix_text
from ..formats.csv.column_map import ColumnMap, sacct_line
from ..table import LogInfo, Trace
from ..table.columns import INSTANTS
from ..table.memory import share_of
from ..table.trace import joined, summed_notes
from .clean import clean, note_clusters, without_absurd, without_repeats
from .readers import GLANCE, parse, reader_of, sniff
from .select import Selection, select, zone
from .source import ABOUT, FORMS, STDIN, Source

PIECE = 500_000
PEAK = "peak"
"""The value of `procs_total` for the largest number of processors that were in use at once."""


def read_trace(
    path: str | Path | Sequence[str | Path],
    *,
    format: str | None = None,
    strict: bool = False,
    timezone: str | None = None,
    procs_total: float | None = None,
    map: str | ColumnMap | None = None,
    cluster: str | Sequence[str] = (),
    keep_repeats: bool = False,
) -> Trace:
    """Read a log, or several logs as one. The format of each file is recognised by its content.

    The formats are SWF, `sacct -P` dumps, PBS accounting logs, batchcast's own CSV, other CSV through a column map,
    Batsim's workloads, Nextflow's traces, Parquet files, and folders of Parquet files (`trace.parquet`).

    Parameters
    ----------
    path
        A file, a folder that `convert` wrote, or `-` for standard input; or several of them, which become one log.
    format
        One of `formats.format_names()`. Default: the format that the content shows.
    strict
        Whether to raise an error at the first broken line. If false, broken lines are dropped and counted in
        `info.dropped`.
    timezone
        Time zone of times without an offset: a name, or an offset such as +01:00. Default: the header's TimeZoneString,
        else the header's TimeZone, else the column map's zone, else UTC. `info.timezone_source` says from which source
        the time zone came.
    procs_total
        Processors of the machine. Default: the number in the log's header.
    map
        Name of a map that comes with batchcast, a TOML file, or a `ColumnMap`. Default: the map that fits the columns.
    cluster
        Clusters whose jobs are kept, by name, if the log has a cluster for each job.
    keep_repeats
        Whether to keep all records of a job. If false, one record is kept of a job that was recorded several times, for
        example in two dumps with overlapping days; `batchcast.trace.clean.without_repeats` has the exact rule.

    Returns
    -------
    Trace
        Sorted by submission. `info.dropped` counts dropped records, and `info.notes` describes irregularities.

    Raises
    ------
    InputError
        If the file does not exist, has no log, or, with `strict`, has a broken line.
    UsageError
        If an argument is not one of the accepted ones.

    Notes
    -----
    Speed is about a million SWF lines per second.

    Examples
    --------
    >>> from batchcast.trace import demo_path
    >>> log = read_trace(demo_path())
    >>> len(log), log.info.max_procs, log.info.format
    (5000, 256.0, 'swf')
    """
    return _read(path, Opening(format, strict, timezone, procs_total, map, cluster, keep_repeats))


def _read(path: str | Path | Sequence[str | Path], how: Opening) -> Trace:
    """Return the jobs of one or several logs, before cleaning and selection."""
    paths, how = paths_of(path), _checked(how)
    return _settled(merged([trace for each in paths for trace in _raw_pieces(each, math.inf, how)]), how)


def paths_of(path: str | Path | Sequence[str | Path]) -> list[str | Path]:
    """Return one path or several as a list; UsageError if there is none, or standard input is named twice.

    >>> paths_of("a.swf"), paths_of(["a.swf", "b.swf"])
    (['a.swf'], ['a.swf', 'b.swf'])
    """
    paths: list[str | Path] = [path] if isinstance(path, (str, Path)) else list(path)
    if not paths:
        raise UsageError("no log was given", hint="give the path of a log, or several paths")
    if [str(each) for each in paths].count(STDIN) > 1:
        hint = f"{STDIN} at most once; name other logs by their paths"
        raise UsageError(f"standard input ({STDIN}) is named twice", hint=hint)
    return paths


def read_pieces(path: str | Path, how: Opening | None = None, *, jobs: int = PIECE) -> Iterator[Trace]:
    """Read a log in pieces, for logs that do not fit into memory."""
    # SWF and folders of Parquet come in pieces. Other formats come as one piece, because the records of a job can be
    # far apart. Repeated records are found only within a piece.
    how = _checked(how or Opening())
    for piece in _raw_pieces(path, jobs, how):
        yield _settled(piece, how)


def _raw_pieces(path: str | Path, jobs: float, how: Opening) -> Iterator[Trace]:
    """Yield the pieces of a log with their provenance; one piece if `jobs` is infinite."""
    if (Path(path) / ABOUT).is_file():
        from .parquet import open_folder

        folder = open_folder(path)
        for number, piece in enumerate(folder.periods() if jobs < math.inf else [folder.to_trace()]):
            info = piece.info if number == 0 else replace(piece.info, dropped={}, notes=())
            yield piece.with_info(_with_zone(info, how.timezone))
        return
    source = Source(path, strict=how.strict)
    blocks, kind = _opened(source, how)
    options = {"strict": how.strict, "zone": zone(how.timezone or "UTC"), "jobs": jobs}
    for piece in parse(kind, blocks, source.name, **options, map=how.map, timezone=how.timezone):
        trace = without_absurd(piece, strict=how.strict)
        notes = (source.damage, *trace.info.notes) if source.damage else trace.info.notes
        info = replace(trace.info, source=source.name, sha256=source.sha256, notes=notes)
        yield trace.with_info(_with_zone(info, how.timezone))


def _checked(how: Opening) -> Opening:
    """Return the arguments of `read_trace` with the column map for its name; UsageError if they are wrong."""
    if how.format is not None:
        reader_of(how.format)
    if how.map is not None and how.format not in (None, "csv"):
        raise UsageError(f"--map is for CSV, not for --format {how.format}", hint="use only one of them")
    if how.timezone is not None:
        zone(how.timezone)
    if isinstance(how.map, str):
        from .column_maps import map_of

        return replace(how, map=map_of(how.map))
    return how


def _settled(trace: Trace, how: Opening) -> Trace:
    """Return the jobs of the chosen clusters, each job once, with the machine size that the user gave."""
    if how.procs_total not in (None, PEAK):
        info = replace(trace.info, max_procs=float(how.procs_total or 0), max_procs_source="--procs-total")
        trace = trace.with_info(info)
    if how.cluster:
        trace = select(trace, Selection(cluster=[how.cluster] if isinstance(how.cluster, str) else list(how.cluster)))
    return note_clusters(trace if how.keep_repeats else without_repeats(trace))


def _opened(source: Source, how: Opening) -> tuple[Iterator[bytes], str]:
    """Return the blocks of a file from its beginning, and the file's format."""
    blocks = source.blocks()
    first = next(blocks, b"")
    if not first.startswith(b"PAR1"):
        blocks = unix_text(chain([first], blocks))
        first = next(blocks, b"")
        if first.lstrip()[:1] != b"{":  # the limit on the length of a line does not apply to JSON
            blocks = Ceilings.set().lines(chain([first], blocks), source.name)
            first = next(blocks, b"")
    kind = "csv" if how.map else how.format or sniff(first)
    if not how.map and not how.format and kind in (None, "csv"):
        _refuse_named(source, first)
    return chain([first], blocks), kind or _unrecognised(source, first)


def _refuse_named(source: Source, sample: bytes) -> None:
    """Raise InputError if the text is known but no log, for example the output of `scontrol show job`."""
    from ..formats.slurm.sacct_lines import named_text

    line = sample.split(b"\n", 1)[0][:GLANCE].decode("utf-8", "replace").rstrip("\r")
    if named := named_text(line):
        raise input_error(source.name, f"this is {named[0]}", line=1, value=line, accepted=FORMS, hint=named[1])


def _unrecognised(source: Source, sample: bytes) -> str:
    """Raise InputError for a text of no known format."""
    junk = sum(byte < 9 or 13 < byte < 32 for byte in sample[:4096])
    what = "binary data, not a job log" if junk > len(sample[:4096]) // 100 else "not a job log of a known format"
    line = sample.split(b"\n", 1)[0][:60].decode("utf-8", "replace")
    hint = sacct_line(line.split()) or f"if it is a log, name its format: --format {', '.join(format_names())}"
    raise input_error(source.name, what, line=1, value=line, accepted=FORMS, hint=hint)


def _with_zone(info: LogInfo, timezone: str | None) -> LogInfo:
    """Return the provenance with the time zone in force; an unknown zone in the header is replaced, with a note."""
    if timezone is not None:
        return replace(info, timezone=timezone, timezone_source="--timezone")
    if info.format in ("sacct", "csv"):
        note = "the log's times have no time zone and are read as UTC: give the cluster's zone with --timezone NAME"
        is_guess = info.header.get("local_times") and info.timezone_source == "default"
        return info.with_note(worded(note)) if is_guess else info
    try:
        zone(info.timezone)
    except UsageError:
        from ..formats.swf import SwfHeader

        note = f"the header's time zone is not known: {info.timezone!r}; its offset, else UTC, is used"
        only_offset = SwfHeader(info.source)
        only_offset.values |= {key: value for key, value in info.header.items() if key == "TimeZone"}
        known = only_offset.info()
        return replace(info, timezone=known.timezone, timezone_source=known.timezone_source).with_note(note)
    return info


ONE_BY_ONE = "leave this option out, or use a log that fits into memory"
EVERY_JOB = Selection()


@dataclass(frozen=True, slots=True)
class Opening:
    """Describes how a log is read, cleaned and cut.

    The order is: read, choose clusters, drop repeated records, clean, select, take the first jobs.
    """

    # The other attributes are the arguments of `read_trace`, `clean` and `select`.

    format: str | None = None
    strict: bool = False
    timezone: str | None = None
    # Size of the machine, or `peak`: the largest number of processors in use at once in the whole log, before cleaning
    # and selection.
    procs_total: float | str | None = None
    map: str | ColumnMap | None = None
    cluster: str | Sequence[str] = ()
    keep_repeats: bool = False
    procs: str | None = None
    known_at_submit: Sequence[str] = ()
    clean: Sequence[str] = ()
    selection: Selection = EVERY_JOB
    first: int | None = None  # Number of jobs at the beginning of the log to keep

    @property
    def rule(self) -> str:
        """The rule for processor counts, `req` or `alloc`; UsageError if `clean` and `procs` contradict each other."""
        if "reference" not in self.clean:
            return self.procs or "req"
        if self.procs == "req":
            raise UsageError("--clean reference implies --procs alloc", hint="leave --procs req out")
        return "alloc"

    def open(self, path: str | Path | Sequence[str | Path]) -> Trace:
        """Return the jobs of one or several logs after reading, cleaning and selecting."""
        rule, trace = self.rule, _read(path, self)
        if self.procs_total == PEAK:
            trace = trace.with_info(replace(trace.info, max_procs=peak_procs(trace, rule), max_procs_source="peak"))
        return select(clean(trace.knowing(self.known_at_submit), self.clean), self.selection, self.first)

    def pieces(self, path: str | Path) -> Iterator[Trace]:
        """Yield the jobs that `open` returns in pieces, for logs that do not fit into memory. A piece can be empty."""
        self.check_pieces()
        for piece in read_pieces(path, self):
            try:
                yield select(clean(piece.knowing(self.known_at_submit), self.clean), self.selection)
            except NoAnswer:
                yield piece.take(np.zeros(0, np.int64), piece.info.with_dropped("not selected", len(piece)))

    def check_pieces(self) -> None:
        """Raise UsageError if an option needs the whole log at once."""
        for option, is_given in (
            ("--clean duplicates", "duplicates" in self.clean),
            ("--procs-total peak", self.procs_total == PEAK),
            ("--first", self.first),
        ):
            if is_given:
                raise UsageError(f"{option} needs the whole log at once", hint=ONE_BY_ONE)


DATED = 1e8
"""If a log's clock has passed this second (1973), it counts from 1970, because no log is three years long."""


def merged(traces: Sequence[Trace]) -> Trace:
    """Merge the jobs of several logs, in log order. Repeated records are kept (see `trace.clean`).

    >>> from batchcast.trace.read import merged
    >>> a = Trace.from_arrays({"submit_time": [0.0]}, LogInfo(source="a.swf", unix_start=2e9, max_procs=8.0))
    >>> b = Trace.from_arrays({"submit_time": [5.0]}, LogInfo(source="b.swf", unix_start=1e9, max_procs=8.0))
    >>> both = merged([a, b])
    >>> both.submit_time.tolist(), both.info.unix_start, both.info.source
    ([5.0, 1000000000.0], 1000000000.0, 'a.swf, b.swf')
    """
    if len(traces) == 1:
        return traces[0]
    # A log is dated if its clock counts seconds from a known date.
    dated = [t.info.unix_start > 0 or bool(len(t) and t.submit_time[-1] > DATED) for t in traces]
    if any(dated) and not all(dated):
        known, unknown = (traces[dated.index(which)].info.source for which in (True, False))
        why = f"does not have the date at which its clock began, but {known} has: their jobs cannot be ordered"
        hint = f"add a UnixStartTime line to the header of {unknown}, or read each log by itself"
        raise InputError(f"{unknown} {why}", hint=hint)
    notes = [] if any(dated) else ["no log has the date of its clock (UnixStartTime): one common clock is assumed"]
    whole = len({trace.info.memory_per for trace in traces}) > 1
    start = min(trace.info.unix_start for trace in traces)
    info = _one_info([trace.info for trace in traces], start, notes)
    pieces = [_on_clock(_of_whole_jobs(trace) if whole else trace, start) for trace in traces]
    return joined(pieces, replace(info, memory_per="job") if whole else info)


def _on_clock(trace: Trace, start: float) -> Trace:
    """Return the log on a clock that reads 0 at the epoch second `start`."""
    shift = trace.info.unix_start - start
    moved = {name: trace.number(name) + shift for name in INSTANTS if name in trace.names}
    return Trace({**trace.columns(), **moved}, trace.info, is_sorted=True)


def _of_whole_jobs(trace: Trace) -> Trace:
    """Return the log with memory columns for whole jobs."""
    names = [name for name in ("req_mem_kib", "used_mem_kib") if name in trace.names]
    return trace.with_columns({name: share_of(trace, name, "job") for name in names})


def _one_info(infos: Sequence[LogInfo], start: float, notes: Sequence[str]) -> LogInfo:
    """Return the merged log's provenance (sources, zone), with a note for each difference between the logs."""
    new_notes = list(notes)
    formats = list(dict.fromkeys(info.format for info in infos))
    if len(formats) > 1:
        rule = (
            "a field that only some of them have is unknown in the others, and names of users are compared as written"
        )
        new_notes.append(f"the logs have different formats ({', '.join(formats)}): {rule}")
    if len({info.timezone for info in infos}) > 1:
        zones = ", ".join(f"{info.source}: {info.timezone}" for info in infos)
        new_notes.append(worded(f"the logs have different time zones ({zones}): dates are shown in {infos[0].timezone};"
                                " choose another zone with --timezone NAME"))  # fmt: skip
    sizes = {info.max_procs for info in infos if info.max_procs > 0}
    if len(sizes) > 1:
        each = ", ".join(f"{info.source}: {info.max_procs:,.0f}" for info in infos if info.max_procs > 0)
        new_notes.append(worded(f"the logs name machines of different sizes ({each} processors): the largest is used;"
                                " choose another size with --procs-total N"))  # fmt: skip
    largest = max(infos, key=lambda info: info.max_procs if info.max_procs > 0 else 0.0)
    names = {column: dict(words) for column, words in infos[0].names.items()}
    for info in infos[1:]:
        for column, words in info.names.items():
            merged_words = names.setdefault(column, {})
            for number in [n for n, word in words.items() if merged_words.get(n, word) != word][:1]:
                both = f"{merged_words[number]!r} in one log and {words[number]!r} in {info.source}"
                new_notes.append(f"{column} {number} is {both}: the numbers may have different meanings")
            names[column] = {**words, **merged_words}
    names_of = [info.source for info in infos]
    dropped: Counter[str] = Counter()
    for info in infos:
        dropped.update(info.dropped)
    return replace(
        infos[0],
        source=", ".join(names_of[:3]) + (f" and {len(names_of) - 3} more logs" if len(names_of) > 3 else ""),
        format=", ".join(formats),
        sha256=hashlib.sha256("\n".join(info.sha256 for info in infos).encode()).hexdigest(),
        unix_start=start,
        max_procs=largest.max_procs,
        max_procs_source=largest.max_procs_source,
        max_nodes=max((info.max_nodes for info in infos if info.max_nodes > 0), default=float("nan")),
        header={key: value for info in reversed(infos) for key, value in info.header.items()},
        names=names,
        dropped=dict(dropped),
        notes=tuple(summed_notes([note for info in infos for note in info.notes]) + new_notes),
    )
