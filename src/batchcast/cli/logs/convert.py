# SPDX-License-Identifier: Apache-2.0
"""`batchcast convert` and `batchcast anonymize`: a log in another format, and a log that can be shared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...errors import UsageError
from ...units import SPAN_FORMS, counted, parse_span
from ..grammar import formulas_option, option, output_option, verb
from ..options import dropped_lines, log_options, settings_of, split_words, take_log
from ..output import document, emit, note, refuse_two_on_stdout, say, show_blocks

if TYPE_CHECKING:
    from ...table import Trace


@verb()
@log_options
@output_option("Output; the ending sets the format: .swf (.gz, .xz), .csv, .parquet, OUT/ (folder), - (CSV on stdout).")
@formulas_option
def command(output: str | None, mark_formulas: bool, as_json: bool, **options: Any) -> None:
    """Convert one LOG or several to OUT; the ending sets the format: .swf (.gz, .xz), .csv, .parquet, .json, OUT/.

    SWF has 18 fields, and names become numbers. CSV keeps every column; Parquet keeps everything; .json is a Batsim
    workload. The command names the columns that the format cannot hold. A folder has one Parquet file per month; SWF
    logs and folders are converted as a stream, so memory does not grow with the log.

    \b
    batchcast convert accounting/20240401 -o april.swf.gz --status completed
    batchcast convert january.txt february.txt -o winter.parquet
    zcat years.swf.gz | batchcast convert - -o years/
    """
    from ...trace.write import FOLDER, jobs_written, not_carried, write_by_ending

    if output is None:
        logs = " ".join(options["log"])
        raise UsageError("-o is missing: where to write the log", hint=f"batchcast convert {logs} -o OUT.parquet")
    kind = _checked_format(output, mark_formulas, as_json, options["log"])
    if kind == FOLDER:
        return _to_folder(output, as_json, options)
    log = take_log(options)
    write_by_ending(log.trace, output, mark_formulas=mark_formulas)
    lost = not_carried(log.trace, kind)
    if as_json:
        settings = {"output": output, "output_format": kind}
        return log.emit("convert", settings, [{"jobs": jobs_written(log.trace, kind)}], lost)
    note(*lost)
    say(f"{counted(jobs_written(log.trace, kind))} to {output} ({kind})")


def _to_folder(out: str, as_json: bool, options: dict[str, Any]) -> None:
    """Convert a log in pieces; reject options that need the whole log."""
    from ...trace.parquet import write_folder
    from ..periods import Pieces

    pieces = Pieces(options)
    folder = write_folder(pieces, out)
    warnings = [*folder.info.notes, *dropped_lines(folder.info.dropped)]
    if as_json:
        settings = {**settings_of(pieces.opening), "output": out, "output_format": "folder"}
        about = {"source": ", ".join(options["log"]), "sha256": folder.info.sha256}
        emit(document("convert", about, settings, warnings, [{"jobs": len(folder), "periods": len(folder.parts)}]))
        return
    note(*warnings)
    say(f"{counted(len(folder))} to {out} ({counted(len(folder.parts), 'file')} by month)")


KEY = "batchcast-anonymize.key"


@verb()
@log_options
@output_option("Output; the ending sets the format: .swf (.gz, .xz), .csv, .parquet, - (CSV on stdout).", required=True)
@formulas_option
@option("--key FILE", f"Key file, created if it does not exist. Default: {KEY}.", "key_file")
@option("--key-env NAME", "Environment variable with the key, instead of a file.")
@option("--shift-times SECONDS|random", "Move every date by this; random: by whole weeks that depend on the key.")
@option("--round-times SPAN", "Round submit, wait and run times to multiples of this (15m).")
@option("--ids keep|renumber [keep]", "Keep job numbers, or number jobs from 1.")
@option("--keep COLUMNS...", "Columns to keep readable.")
def anonymize(
    output: str, key_file: str | None, key_env: str | None, mark_formulas: bool, as_json: bool, **options: Any
) -> None:
    """Replace the names in LOG by tokens: users, groups, accounts, job names, paths, queues.

    The same key gives the same tokens in every log. Header, file name and checksum are removed, and extra columns of
    numbers too, unless --keep names them. The output lists what was replaced, kept and dropped.

    \b
    batchcast anonymize jobs.txt -o shared.parquet --shift-times random
    """
    from ...trace.anonymize import anonymize
    from ...trace.write import not_carried, write_by_ending

    kind = _checked_format(output, mark_formulas, as_json, options["log"])
    step = _step(options["round_times"])  # checked before the key: a wrong option must not create a key file
    key, notes = _key(key_file, key_env)
    shift, ids = _shift(options["shift_times"], key), options["ids"]
    log = take_log(options)
    keeps, numeric = split_words(options["keep"]), kind == "swf"
    shared, treated = anonymize(log.trace, key, shift=shift, step=step, ids=ids, keep=keeps, numeric=numeric)
    write_by_ending(shared, output, mark_formulas=mark_formulas)
    rows = [{"column": t.column, "treatment": t.treatment, "distinct": t.distinct, "why": t.why} for t in treated]
    info = log.trace.info
    size = f"{info.max_procs:.0f} processors" if info.max_procs > 0 else "unknown"
    rows += [
        {"column": "(header, file name, checksum, notes)", "treatment": "dropped", "distinct": None, "why": ""},
        {"column": "(time zone)", "treatment": "kept", "distinct": None, "why": info.timezone},
        {"column": "(machine size)", "treatment": "kept", "distinct": None, "why": size},
    ]
    notes += not_carried(shared, kind)
    risk = _risk(log.trace, shared, bool(step))
    notes.append(risk.pop("sentence"))
    if as_json:
        shown_key = f"${key_env}" if key_env else key_file or KEY
        settings: dict[str, Any] = {"output": output, "output_format": kind, "key": shown_key}
        settings |= {"shift_s": shift, "round_s": step, **risk, "ids": ids, "keep": keeps or None}
        return log.emit("anonymize", settings, rows, notes)
    from ...report.blocks import Table, columns_of

    columns = columns_of("column", "treatment|what was done", "distinct|different|count", "why")
    table = Table(f"{counted(len(shared))} to {output} ({kind})", columns, rows)
    show_blocks(table, stderr=output == "-")
    note(*notes)


def _step(text: str | None) -> float:
    """Return the step in seconds for rounding times; 0 leaves times unchanged."""

    if text is None:
        return 0.0
    step = parse_span(text)
    if not 1 <= step < math.inf:
        raise UsageError(f"--round-times: {text!r} (accepted: a second or more; {SPAN_FORMS})")
    return step


def _risk(log: Trace, shared: Trace, is_rounded: bool) -> dict[str, Any]:
    """Compute how many jobs and users the submit and run time of a job identify in the shared log, with a sentence."""
    from ...trace.anonymize import linkable

    jobs, users = linkable(shared)
    of_users = f", and with them a job of {users:.1%} of the users" if users == users else ""
    sentence = f"a person who knows a job's submit time and run time can identify {jobs:.1%} of the jobs{of_users}"
    if is_rounded:
        before, _ = linkable(log)
        sentence += f" ({before:.1%} of the jobs without --round-times)"
    else:
        sentence += "; --round-times 1h lowers this share"
    sizes = "; sizes, time limits and memory may identify more"
    return {"linkable_jobs_share": jobs, "linkable_users_share": users, "sentence": sentence + sizes}


def _key(key_file: str | None, key_env: str | None) -> tuple[bytes, list[str]]:
    """Return the key of the key file or of the environment variable, and notes about a new key file."""
    from ...trace.anonymize import key_in_environment, key_of

    if key_file and key_env:
        raise UsageError("--key and --key-env each name a key", hint="use one of them")
    return (key_in_environment(key_env), []) if key_env else key_of(key_file or KEY)


def _shift(text: str | None, key: bytes) -> float:
    """Return the seconds by which every time is shifted."""
    from ...trace.anonymize import shift_of

    if text is None:
        return 0.0
    if text == "random":
        return shift_of(key)
    try:
        sign, length = (-1.0, text[1:]) if text.startswith("-") else (1.0, text)
        return sign * (float(length) if length.isdecimal() else parse_span(length))
    except UsageError:
        raise UsageError(f"--shift-times: {text!r} (accepted: whole seconds, {SPAN_FORMS}, random)") from None


def _checked_format(out: str, mark_formulas: bool, as_json: bool, logs: Sequence[str]) -> str:
    """Return the format of the output file.

    Raises UsageError if the format has no formulas to mark, or if the output would replace one of the logs or would go
    to stdout beside the JSON document.
    """
    from pathlib import Path

    from ...trace.write import check_formulas, kind_of

    kind = kind_of(out)
    check_formulas(out, kind, mark_formulas)
    for log in logs:
        if log != "-" and Path(out).exists() and Path(log).exists() and Path(out).samefile(log):
            raise UsageError(f"-o {out} is the log itself", hint="another name")
    refuse_two_on_stdout(out, as_json)
    return kind
