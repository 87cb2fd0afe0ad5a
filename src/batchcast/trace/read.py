# SPDX-License-Identifier: Apache-2.0
"""Read a log: open, tell the format by its content, parse, and note where everything came from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

from ..ceilings import Ceilings
from ..errors import UsageError, input_error, worded
from ..formats import FORMATS
from ..formats.chunks import unix_text
from ..formats.csv.column_map import ColumnMap, sacct_line, unrecognised_header
from ..formats.csv.rows import header_of
from ..table import LogInfo, Trace
from .clean import without_absurd
from .repeats import note_clusters, without_repeats
from .select import Selection, select, zone
from .source import A_MAP, FORMS, STDIN, Source, fitting_map, map_of, ready_maps

if TYPE_CHECKING:
    from .parquet import LogFolder

PIECE = 500_000
_GLANCE = 1 << 13


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
    """The log at `path` as a Trace, or several logs as one; each file's format is recognised by its content.

    SWF, a `sacct -P` dump, a PBS accounting log, batchcast's own CSV, another CSV through a column map, a Parquet file
    or a folder of them (`trace.parquet`), which is read at once.

    Parameters
    ----------
    path
        A file, or a folder that `convert` wrote; `-` is standard input. Or several of them, which become one log.
    format
        One of `FORMATS`, where content is not to be asked.
    strict
        Whether the first broken line stops; otherwise it is left out and counted in `info.dropped`.
    timezone
        The zone of dates without one: a name, or an offset such as +01:00. By default the log's own TimeZoneString,
        else its TimeZone, else the map's, else UTC; `info.timezone_source` says which.
    procs_total
        Processors of the machine, instead of the header's.
    map
        A ready-made map's name, a TOML file, or a `ColumnMap`. By default the ready-made map whose columns a CSV has.

    cluster
        The clusters whose jobs are taken, by name, from a log that names the cluster of each job.
    keep_repeats
        Keep all records. By default one record of each job is kept if a job is recorded several times, for example in
        two dumps whose days overlap: see `batchcast.trace.repeats.without_repeats` for the exact rule.

    Returns
    -------
    Trace
        Sorted by submission; what was dropped is counted in `info.dropped`, what was odd is said in `info.notes`.

    Raises
    ------
    InputError
        No such file, no log in it, or with `strict` the first broken line.
    UsageError
        For an argument that is none of the accepted ones.

    Notes
    -----
    About a million SWF lines a second.

    Examples
    --------
    >>> from batchcast.trace.demo import demo_path
    >>> log = read_trace(demo_path())
    >>> len(log), log.info.max_procs, log.info.format
    (5000, 256.0, 'swf')
    """
    paths = paths_of(path)
    chosen = _checked(format, map, timezone)
    traces = [_one_log(each, format, strict, timezone, chosen) for each in paths]
    return _settled(_merged(traces), procs_total, cluster, keep_repeats)


def _merged(traces: list[Trace]) -> Trace:
    """Several logs as one."""
    if len(traces) == 1:
        return traces[0]
    from .merge import merged

    return merged(traces)


def paths_of(path: str | Path | Sequence[str | Path]) -> list[str | Path]:
    """One path or several as a list; UsageError for none, and for standard input named twice.

    >>> paths_of("a.swf"), paths_of(["a.swf", "b.swf"])
    (['a.swf'], ['a.swf', 'b.swf'])
    """
    paths: list[str | Path] = [path] if isinstance(path, (str, Path)) else list(path)
    if not paths:
        raise UsageError("no log is named", hint="the path of a log, or several paths")
    if [str(each) for each in paths].count(STDIN) > 1:
        raise UsageError(f"standard input ({STDIN}) is named twice", hint=f"{STDIN} once, other logs by their files")
    return paths


def _one_log(
    path: str | Path, format: str | None, strict: bool, timezone: str | None, chosen: ColumnMap | None
) -> Trace:
    """The jobs of one file or folder, with its provenance and time zone."""
    if folder := _folder(path):
        return _located(folder.whole(), None, timezone)
    source = Source(path, strict=strict)
    trace = without_absurd(_parse(source, format, strict, timezone, chosen), strict=strict)
    return _located(trace, source, timezone)


def _folder(path: str | Path) -> LogFolder | None:
    """What `trace.parquet` wrote there; None where it is something else."""
    if not Path(path).is_dir():
        return None
    from .parquet import is_folder, open_folder

    return open_folder(path) if is_folder(path) else None


class Reading(TypedDict, total=False):
    """The arguments of `read_trace` beside the path."""

    format: str | None
    strict: bool
    timezone: str | None
    procs_total: float | None
    map: str | ColumnMap | None
    cluster: str | Sequence[str]
    keep_repeats: bool


def read_pieces(path: str | Path, *, jobs: int = PIECE, **how: Unpack[Reading]) -> Iterator[Trace]:
    """The log that `read_trace` reads, by the same arguments, in pieces of about `jobs` jobs; each piece is sorted.

    SWF and a folder of Parquet (`trace.parquet`) come in pieces. A log of any other format is one piece, because a
    record may stand far from where it began. What a piece's `info` counts and notes is of its own records; the file's
    SHA-256 is the last piece's. Repeated records are found within a piece.
    """
    format, timezone = how.get("format"), how.get("timezone")
    chosen = _checked(format, how.get("map"), timezone)
    for piece in _raw_pieces(path, jobs, format, how.get("strict", False), timezone, chosen):
        yield _settled(piece, how.get("procs_total"), how.get("cluster", ()), how.get("keep_repeats", False))


def _raw_pieces(
    path: str | Path, jobs: int, format: str | None, strict: bool, timezone: str | None, chosen: ColumnMap | None
) -> Iterator[Trace]:
    """The pieces of a log with their provenance, as the format gives them."""
    if folder := _folder(path):
        for number, piece in enumerate(folder.periods()):
            info = piece.info if number == 0 else replace(piece.info, dropped={}, notes=())
            yield _located(piece.with_info(info), None, timezone)
        return
    source = Source(path, strict=strict)
    blocks, kind = _opened(source, format, chosen)
    if kind != "swf":
        trace = without_absurd(_parse_as(kind, blocks, source, strict, timezone, chosen), strict=strict)
        yield _located(trace, source, timezone)
        return
    from ..formats.swf import swf_pieces

    for piece in swf_pieces(blocks, source.name, strict=strict, jobs=jobs):
        yield _located(without_absurd(piece, strict=strict), source, timezone)


def _checked(format: str | None, map: str | ColumnMap | None, timezone: str | None) -> ColumnMap | None:
    """The column map, once every word is known to be an accepted one."""
    if format is not None and format not in FORMATS:
        raise UsageError(f"not a format: {format!r} (accepted: {', '.join(FORMATS)})")
    if map is not None and format not in (None, "csv"):
        raise UsageError(f"--map is for CSV, not for --format {format}", hint="one of them alone")
    if timezone is not None:
        zone(timezone)
    return map_of(map) if isinstance(map, str) else map


def _located(trace: Trace, source: Source | None, timezone: str | None) -> Trace:
    """The trace with the name and checksum of its file, and the time zone of its dates."""
    info = trace.info
    if source is not None:
        info = replace(info, source=source.name, sha256=source.sha256)
    info = _with_zone(info, timezone)
    if source is not None and source.damage:
        info = replace(info, notes=(source.damage, *info.notes))
    return trace.with_info(info)


def _settled(trace: Trace, procs_total: float | None, cluster: str | Sequence[str], keep_repeats: bool) -> Trace:
    """The trace of the chosen clusters with each job once, and the size of the machine that the user named."""
    if procs_total is not None:
        named = replace(trace.info, max_procs=float(procs_total), max_procs_source="--procs-total")
        trace = trace.with_info(named)
    if cluster:
        trace = select(trace, Selection(cluster=[cluster] if isinstance(cluster, str) else list(cluster)))
    return note_clusters(trace if keep_repeats else without_repeats(trace))


def _parse(source: Source, format: str | None, strict: bool, timezone: str | None, chosen: ColumnMap | None) -> Trace:
    blocks, kind = _opened(source, format, chosen)
    return _parse_as(kind, blocks, source, strict, timezone, chosen)


def _opened(source: Source, format: str | None, chosen: ColumnMap | None) -> tuple[Iterator[bytes], str]:
    """The text from its beginning, and the format it is to be read as."""
    blocks = source.blocks()
    first = next(blocks, b"")
    if not first.startswith(b"PAR1"):
        blocks = unix_text(chain([first], blocks))
        first = next(blocks, b"")
        if first.lstrip()[:1] != b"{":  # JSON may be one line
            blocks = Ceilings.set().lines(chain([first], blocks), source.name)
            first = next(blocks, b"")
    kind = "csv" if chosen else format or sniff(first)
    if not chosen and not format and kind in (None, "csv"):
        _refuse_named(source, first)
    return chain([first], blocks), kind or _unrecognised(source, first)


def _parse_as(
    format: str, whole: Iterator[bytes], source: Source, strict: bool, timezone: str | None, chosen: ColumnMap | None
) -> Trace:
    if format == "csv":
        first = next(whole)
        return _parse_csv(chain([first], whole), header_of(first), source, strict, timezone, chosen)
    if format == "swf":
        from ..formats.swf import read_swf

        return read_swf(whole, source.name, strict=strict)
    if format == "parquet":
        from .parquet import parse_parquet

        return parse_parquet(b"".join(whole), source.name, strict=strict, zone=zone(timezone or "UTC"))
    if format == "batsim":
        from ..formats.batsim import read_batsim

        return read_batsim(b"".join(whole).decode("utf-8", "replace"), source.name, strict=strict)
    if format == "nextflow":
        from ..formats.nextflow import read_nextflow

        text = b"".join(whole).decode("utf-8", "replace")
        return read_nextflow(text, source.name, zone(timezone or "UTC"), strict=strict)
    if format == "pbs":
        from ..formats.pbs.accounting import read_pbs

        return read_pbs(whole, source.name, strict=strict)
    from ..formats.slurm.sacct import read_sacct, read_sacct_json

    first = next(whole, b"")
    is_json = first.lstrip()[:1] == b"{"
    read = read_sacct_json if is_json else read_sacct
    return read(chain([first], whole), source.name, strict=strict, zone=zone(timezone or "UTC"))


def _parse_csv(
    whole: Iterator[bytes],
    header: list[str],
    source: Source,
    strict: bool,
    timezone: str | None,
    chosen: ColumnMap | None,
) -> Trace:
    """The named map, else the ready-made one with exactly these columns, else our own columns."""
    from ..formats.csv.own import is_own, read_own_csv

    mapped = chosen or fitting_map(header)
    if mapped is None and is_own(header):
        return read_own_csv(whole, source.name, strict=strict)
    if mapped is None:
        raise unrecognised_header(source.name, header, [each.name for each in ready_maps()], str(A_MAP))
    from ..formats.csv.foreign import read_mapped_csv

    where = zone(timezone or mapped.timezone or "UTC")
    trace = read_mapped_csv(whole, mapped, source.name, strict=strict, zone=where)
    if mapped.timezone and not timezone:
        trace = trace.with_info(replace(trace.info, timezone=mapped.timezone, timezone_source=f"the map {mapped.name}"))
    return trace


def sniff(sample: bytes) -> str | None:
    """One of `FORMATS`, or None when the bytes have the marks of no format.

    >>> sniff(b"; MaxProcs: 128\\n"), sniff(b"JobID|Submit|State\\n"), sniff(b"PAR1..."), sniff(b"hello\\n")
    ('swf', 'sacct', 'parquet', None)
    """
    if sample.startswith(b"PAR1"):
        return "parquet"
    if sample.lstrip()[:1] == b"{":
        from ..formats.slurm.job_json import looks_like_job_json

        if looks_like_job_json(sample):
            return "sacct"
        from ..formats.batsim import looks_like_batsim

        return "batsim" if looks_like_batsim(sample) else None
    from ..formats.swf import looks_like_swf

    if looks_like_swf(sample[:_GLANCE]):
        return "swf"
    from ..formats.pbs.accounting import looks_like_pbs

    if looks_like_pbs(sample[:_GLANCE].decode("utf-8", "replace")):
        return "pbs"
    from ..formats.slurm.sacct import looks_like_sacct  # brings much that SWF does not need

    if looks_like_sacct(sample[:_GLANCE].decode("utf-8", "replace")):
        return "sacct"
    from ..formats.nextflow import looks_like_nextflow

    if looks_like_nextflow(sample):
        return "nextflow"
    if looks_like_swf(sample):  # junk may come first
        return "swf"
    return "csv" if header_of(sample) else None


def _refuse_named(source: Source, sample: bytes) -> None:
    """Raise InputError for a text that is known and is no log."""
    from ..formats.slurm.other_texts import named_text

    line = sample.split(b"\n", 1)[0][:_GLANCE].decode("utf-8", "replace").rstrip("\r")
    if named := named_text(line):
        raise input_error(source.name, f"this is {named[0]}", line=1, value=line, accepted=FORMS, hint=named[1])


def _unrecognised(source: Source, sample: bytes) -> str:
    junk = sum(byte < 9 or 13 < byte < 32 for byte in sample[:4096])
    what = "binary data, not a job log" if junk > len(sample[:4096]) // 100 else "not a job log of a known format"
    line = sample.split(b"\n", 1)[0][:60].decode("utf-8", "replace")
    hint = sacct_line(line.split()) or f"--format {', '.join(FORMATS)} to insist"
    raise input_error(source.name, what, line=1, value=line, accepted=FORMS, hint=hint)


def _with_zone(info: LogInfo, timezone: str | None) -> LogInfo:
    """The zone that counts; a header's zone that does not exist gives way with a note."""
    if timezone is not None:
        return replace(info, timezone=timezone, timezone_source="--timezone")
    if info.format in ("sacct", "csv"):
        note = "the log's times carry no zone and are read as UTC: --timezone NAME says where the cluster stands"
        is_guess = info.header.get("local_times") and info.timezone_source == "default"
        return info.with_note(worded(note)) if is_guess else info
    try:
        zone(info.timezone)
    except UsageError:
        note = f"the header's time zone is not known: {info.timezone!r}; its offset, else UTC, is used"
        offset, source = "UTC", "default"
        if "TimeZone" in info.header:
            from ..formats.swf_text import SwfHeader

            only_offset = SwfHeader(info.source)
            only_offset.values["TimeZone"] = info.header["TimeZone"]
            again = only_offset.info()
            offset, source = again.timezone, again.timezone_source
        return replace(info, timezone=offset, timezone_source=source).with_note(note)
    return info
