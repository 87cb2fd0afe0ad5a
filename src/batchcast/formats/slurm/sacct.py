# SPDX-License-Identifier: Apache-2.0
"""Read dumps of Slurm's accounting (`sacct -P`), with any columns in any order, identified by the header.

The job steps in the dump give a job's peak memory. Lines that were broken by delimiters or line breaks in texts are
repaired if possible.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from ...columns import COLUMNS, OUT_OF_MEMORY
from ...errors import UsageError, input_error
from ...job import is_slurm_state, status_from_sacct
from ...table import LogInfo, Nominal, Trace
from ...table.columns import SORTED, in_log_order
from ...units import parse_duration, parse_memory
from ..chunks import Codes, LogColumns, Problems, as_ids, rows_of, rows_where, unix_text, whole_lines
from ..memo import STRANGE_STATE, UNLIMITED, Memo, either, name_or_null, positive
from ..memory import MOST_KIB, STEP_FIELDS
from ..times import BAD_STAMP, LocalClock, Stamps, no_stamps, parse_stamps, run_and_wait, unfinished, without_zeros
from .resources import gpu_type, gres_gpus, parse_tres, tres_gpus
from .sacct_lines import COMMAND, Columns, Layout, Records, no_header
from .sbatch import GPU_OPTIONS, Request, command_digest, parse_submit_line

_FROM_OTHER_FIELDS = ("SubmitLine", "ReqTRES", "AllocTRES", "State")
"""Fields of sacct that are parsed to several columns, or to a status."""
_ALSO = {"user_id": ("uid",), "group_id": ("gid",), "qos": ("qosreq",)}
"""Fields of sacct that replace an empty or missing field of a column."""
_NAMES = {
    c.name: (c.sacct.lower(), *_ALSO.get(c.name, ()))
    for c in COLUMNS.values()
    if c.kind == "nominal" and c.sacct and c.sacct not in _FROM_OTHER_FIELDS
}
_OPTION_NAMES = {"app_id": "command", "constraint": "constraint", "reservation": "reservation"} | {
    c.name: c.sbatch for c in COLUMNS.values() if c.kind == "nominal" and c.sacct == "SubmitLine" and c.sbatch
}
"""Nominal columns that are read from the submit command, with the names of its options; `command`: the script.
Constraints and reservations are read from the command if their own fields are empty or missing."""
_NUMBERS = {
    c.name: ({"s": "duration", "KiB": "memory"}.get(c.unit, "number"), c.sacct.lower())
    for c in COLUMNS.values()
    if c.kind == "number" and c.sacct and c.sacct not in STEP_FIELDS
}
"""Kind and field of the columns of numbers, for columns that are not computed from several fields (`_measure`)."""


def looks_like(head: bytes) -> bool:
    """Whether one of the first lines is a header with sacct's column names, or the text is Slurm's JSON."""
    lines = head.decode("utf-8", "replace").split("\n")[:200]
    return looks_like_json(head) or any(Layout.of_header(line.rstrip("\r")) is not None for line in lines)


def looks_like_json(head: bytes) -> bool:
    """Whether a text begins like the output of `sacct --json` or `squeue --json`.

    >>> looks_like_json(b'{"jobs": [{"job_id": 7}]}'), looks_like_json(b'{"jobs": [{"id": 1, "res": 4}]}')
    (True, False)
    """
    marks = (b'"job_id"', b'"data_parser', b"Slurm OpenAPI", b"openapi\\/slurm", b"openapi/slurm", b"openapi\\/dbv")
    return head.lstrip().startswith(b"{") and any(mark in head for mark in marks)


def read(blocks: Iterable[bytes], source: str, *, strict: bool, zone: tzinfo) -> Trace:
    """Read a `sacct -P` dump, or the output of `sacct --json` or `squeue --json`."""
    whole = iter(blocks)
    first = next(whole, b"")
    reader = read_sacct_json if first.lstrip()[:1] == b"{" else read_sacct
    return reader(chain([first], whole), source, strict=strict, zone=zone)


def read_sacct(blocks: Iterable[bytes], source: str = "(memory)", *, strict: bool = False, zone: tzinfo = UTC) -> Trace:
    """Read a `sacct -P` dump; times are epoch seconds.

    >>> text = "JobID|Submit|Start|End|State|ReqMem\\n7_1|1970-01-01T00:01:00|90|100|CANCELLED by 5|2Gn\\n"
    >>> trace = read_sacct([text.encode()])
    >>> trace.job_id.tolist(), trace.wait_time.tolist(), trace.run_time.tolist(), trace.nominal("status").decode()
    (['7_1'], [30.0], [10.0], ['cancelled'])
    """
    # A job that never started has no run time, and its wait lasts until it left the queue. A job that was pending or
    # running when the dump was written has no run time either; a note gives the number of such jobs.
    #
    # Requested memory is the amount for the whole job (`formats.memory.requested`). Used memory is the peak of the
    # busiest node over the job's steps (12.batch, 12.0) times its nodes (`formats.memory.peak`); a dump made with -X
    # has no steps. A FAILED job counts as out of memory if Slurm killed one of its steps for its memory
    # (`formats.memory.outgrew`; needs State and AllocTRES).
    problems = Problems(source, strict)
    records, table = Records(problems), _Table(problems, LocalClock(zone))
    first, piece = "", b"\n"
    for piece in whole_lines(unix_text(blocks)):
        text = piece.decode("utf-8", "replace").removesuffix("\n")
        lines = [line.removesuffix("\r") for line in text.split("\n")]
        first = first or lines[0]
        for layout, columns, numbers in records.take(lines):
            table.add(layout, columns, numbers)
    records.give_up()
    if records.layout is None:
        raise no_header(source, first)
    return table.trace(source, records, () if piece.endswith((b"\n", b"\r")) else (_CUT,))


def read_sacct_columns(
    columns: Mapping[str, Sequence[str]],
    source: str = "(memory)",
    *,
    strict: bool = False,
    zone: tzinfo = UTC,
    notes: Sequence[str] = (),
) -> Trace:
    """Read sacct records whose fields are already separated.

    >>> read_sacct_columns({"JobID": ["7", "7.0"], "Submit": ["60", "60"], "MaxRSS": ["", "2M"]}).number("used_mem_kib")
    array([2048.])
    """
    layout = Layout.of_names([name.lower() for name in columns])
    if "submit" not in layout.positions or not {"jobid", "jobidraw"} & set(layout.positions):
        raise no_header(source, "|".join(columns))
    problems = Problems(source, strict)
    records, table = Records(problems), _Table(problems, LocalClock(zone))
    texts = list(columns.values())
    jobs, numbers = records.take_columns(layout, texts, list(range(1, len(texts[0]) + 1)))
    if numbers:
        table.add(layout, jobs, numbers)
    return table.trace(source, records, notes)


def read_sacct_json(
    blocks: Iterable[bytes], source: str = "(memory)", *, strict: bool = False, zone: tzinfo = UTC
) -> Trace:
    """Read the output of `sacct --json` or `squeue --json`.

    >>> job = b'{"job_id": 7, "submit_time": 60, "job_state": ["PENDING"], "time_limit": 2, "start_time": 99}'
    >>> trace = read_sacct_json([b'{"jobs": [', job, b"]}"]); trace.req_time.tolist(), trace.wait_time.tolist()
    ([120.0], [nan])
    """
    # squeue's start of a waiting job is Slurm's forecast and is ignored.
    from .job_json import job_columns  # imported late, because text does not need msgspec

    columns, notes = job_columns(b"".join(blocks), source)
    return read_sacct_columns(columns, source, strict=strict, zone=zone, notes=notes)


def _plain_number(text: str) -> float:
    return float(text) if text.strip() else math.nan


def _minutes(text: str) -> float:
    """Return seconds for whole minutes (TimelimitRaw) or for a Slurm duration."""
    return float(text) * 60 if text.strip().isdecimal() else parse_duration(text)


BROKEN_MEMORY = "reqmem: more than a pebibyte, read from ReqTRES or AllocTRES if they have an amount"
_OPTION_NUMBERS = {
    "exclusive": ("exclusive", r"(?:^$|^user|^mcs|^topo|^true)()"),
    "array_throttle": ("array", r"%(\d{1,9})$"),
    "nice": ("nice", r"^(\d{1,10})?$"),
    "cpus_per_task": ("cpus-per-task", r"^(\d{1,6})$"),
}
"""Columns of numbers that are read from the submit command (sacct's SubmitLine): name of the option, and the pattern of
its number."""
_BARE = {"exclusive": 1.0, "nice": 100.0}  # value of an option without an argument; --nice lowers priority by 100


def _option_number(request: Request, option: str, pattern: str) -> float:
    """Return the number in an option of the submit command: the option's default if the option has no value, NaN if
    the option is absent.

    >>> _option_number(parse_submit_line("sbatch --exclusive x"), "exclusive", "(?:^$)()")
    1.0
    >>> _option_number(parse_submit_line("sbatch -a 1-9%2 x"), "array", r"%(\\d+)$")
    2.0
    """
    value = request.options.get(option)
    match = None if value is None else re.search(pattern, value)
    return math.nan if match is None else float(match[1]) if match[1] else _BARE[option]


def _per_gpu(request: Request) -> float:
    """Return the KiB of `--mem-per-gpu` in a submit command; NaN if the option is absent or no amount."""
    try:
        return parse_memory(request.options.get("mem-per-gpu", ""))
    except UsageError:
        return math.nan


PARSERS: Mapping[str, Callable[[str], float]] = {
    "number": _plain_number,
    "duration": parse_duration,
    "minutes": _minutes,
    "memory": parse_memory,
    "per": lambda text: {"n": 1.0, "c": 2.0}.get(text[-1:].lower(), 0.0),
    "tres_cpu": lambda text: _plain_number(parse_tres(text).get("cpu", "")),
    "tres_mem": lambda text: parse_memory(parse_tres(text).get("mem", "")),
    "tres_node": lambda text: _plain_number(parse_tres(text).get("node", "")),
    "tres_gpu": tres_gpus,
    "gres_gpu": gres_gpus,
}
"""The function that parses a text to a number, by the kind of the number (counts, durations, sizes)."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Converts rows with the same order of fields to columns. Unreadable values become unknown and are reported with
    their line number."""

    layout: Layout  # Position of each field in a row
    columns: Sequence[Sequence[str]]  # The cells of the text, one sequence per column
    lines: Sequence[int]  # Line number of each row in the file
    problems: Problems  # Collects the reports about broken lines and values
    clock: LocalClock  # Converts local times to epoch seconds
    memo: Mapping[str, Memo]  # The caches of numbers, by the kinds of numbers in `PARSERS`
    requests: Sequence[Request]  # The requests in the submit commands; empty without SubmitLine

    def text(self, *names: str) -> Sequence[str] | None:
        """Return the first of the named columns that exists, or None."""
        index = self.layout.first(*names)
        return None if index is None else self.columns[index]

    def stamps(self, name: str, submit: np.ndarray | None = None) -> Stamps:
        """Parse a column of times to epoch seconds; NaN for "no time" (`without_zeros`) and for a missing column."""
        # For times in an hour that a clock change repeats, the second array has the seconds from the first to the
        # second pass of the hour.
        texts = self.text(name)
        if texts is None:
            return no_stamps(len(self.lines))
        epoch, later, bad = parse_stamps(texts, self.clock)
        self.problems.unknown_at(bad, self.lines, f"{name}: {BAD_STAMP}", texts)
        return epoch if submit is None else without_zeros(epoch, submit), later

    def number(self, kind: str, *names: str) -> np.ndarray:
        """Parse the first of the named columns that exists; NaN for unknown and unlimited values."""
        values = self._raw(kind, *names)
        return np.where(np.isinf(values), np.nan, values)

    def limit(self) -> tuple[np.ndarray, int]:
        """Return the time limits in seconds (0 is unknown), and the number of jobs without a limit (UNLIMITED)."""
        limit = either(self._raw("minutes", "timelimitraw"), self._raw("duration", "timelimit"))
        return np.where(np.isinf(limit) | (limit == 0), np.nan, limit), int((limit == UNLIMITED).sum())

    def requested_memory(self, nodes: np.ndarray, procs: np.ndarray) -> np.ndarray:
        """Return the requested memory of the whole job in KiB, from ReqMem or, if that is unknown, from ReqTRES.

        An impossible ReqMem (more than a pebibyte per node) is reported; ReqTRES or AllocTRES then replaces the value.
        """
        amount, in_tres = self.number("memory", "reqmem"), self.number("tres_mem", "reqtres")
        broken, per = amount > MOST_KIB, self.number("per", "reqmem")
        rows = np.flatnonzero(broken).tolist()
        self.problems.unknown_at(rows, self.lines, BROKEN_MEMORY, self.text("reqmem") or ())
        for kind, count in ((1.0, nodes), (2.0, procs)):  # amounts are per node (suffix `n`) or processor (suffix `c`)
            amount = np.where((per == kind) & (count > 0), amount * count, amount)
        whole = either(np.where(broken, np.nan, amount), in_tres)
        if not broken.any():
            return whole
        return either(whole, np.where(broken, self.number("tres_mem", "alloctres"), np.nan))

    def gpus(self, nodes: np.ndarray) -> np.ndarray:
        """Return the GPUs of the whole job, from ReqTRES, else AllocTRES, else ReqGRES (which counts per node). If TRES
        do not mention GPUs, the submit command decides."""
        # TRES have GPUs only if the site lists gres/gpu in AccountingStorageTRES.
        gpus = either(self.number("tres_gpu", "reqtres"), self.number("tres_gpu", "alloctres"))
        gpus = either(gpus, self.number("gres_gpu", "reqgres", "reqtresgpu") * np.where(nodes > 0, nodes, 1.0))
        return np.where(gpus > 0, gpus, either(self.command_gpus(nodes), gpus))

    def command_gpus(self, nodes: np.ndarray) -> np.ndarray:
        """Return the GPUs that the submit commands request on these nodes; NaN for commands without such an option."""
        counts = np.full(len(self.lines), np.nan)
        for k, request in enumerate(self.requests):
            if not request.options.keys().isdisjoint(GPU_OPTIONS):
                on_nodes = {"nodes": f"{nodes[k]:.0f}"} if nodes[k] > 0 else {}
                counts[k] = request.replaced(on_nodes).gpus
        return counts

    def codes(self, words: Codes, *names: str) -> np.ndarray:
        """Return the codes of the first named column, or of the next column where the cell is empty."""
        codes = np.full(len(self.lines), -1, dtype=np.int32)
        for name in names:
            texts = self.text(name)
            if texts is not None and (codes < 0).any():
                codes = np.where(codes < 0, words.encode(texts), codes)
        return codes

    def option_codes(self, words: Codes, option: str) -> np.ndarray:
        """Return the codes of an option's values in the submit commands; -1 for jobs without the option.

        For `partition`, only lists of several partitions get a code, because sacct prints a single partition in the
        column Partition. The option name `command` means the script and its arguments.
        """
        if option == "command":
            values = [command_digest(request.command) or "" for request in self.requests]
        else:
            values = [request.options.get(option, "") for request in self.requests]
        if option == "partition":
            values = [text if "," in text else "" for text in values]
        return words.encode(values) if values else np.full(len(self.lines), -1, dtype=np.int32)

    def of_requests(self, number: Callable[[Request], float]) -> np.ndarray:
        """Return a number of each submit command; NaN without SubmitLine."""
        numbers = map(number, self.requests) if self.requests else (math.nan for _ in self.lines)
        return np.fromiter(numbers, dtype=float, count=len(self.lines))

    def held_something(self) -> np.ndarray:
        """Whether the record shows that a job had processors or nodes, for each job, shape (n,)."""
        if (nodes := self.text("nodelist")) is not None:
            return np.array([text.strip().lower() not in ("", "none assigned", "none", "(null)") for text in nodes])
        if (tres := self.text("alloctres")) is not None:
            # For a job that was cancelled in the queue, AllocCPUS repeats the request, but AllocTRES is empty.
            return np.array([bool(text.strip()) for text in tres])
        return (self.number("number", "alloccpus") > 0) | (self.number("number", "allocnodes") > 0)

    def _raw(self, kind: str, *names: str) -> np.ndarray:
        """Return the parsed values of the first column that exists, else NaN; -inf marks unlimited values."""
        texts = self.text(*names)
        if texts is None:
            return np.full(len(self.lines), np.nan)
        if kind == "number" and "".join(texts).isdecimal() and all(texts):
            return np.fromiter(map(float, texts), dtype=float, count=len(texts))
        what = f"{names[0]}: not a valid value, read as unknown"
        return self.memo[kind].read(texts, self.lines, what, self.problems)


_CUT = "the last line does not end with a line break: the file may be truncated"


_OUTGROWN = "failed jobs count as out of memory: Slurm killed a step that exceeded its share (OverMemoryKill)"


_GPU_TYPES = {"gpu_type": ("reqtres", "reqgres"), "alloc_gpu_type": ("alloctres",)}
"""Fields with the requested GPU type, and with the allocated GPU type, which is not known at submission."""
_CODED = {**_NAMES, **_GPU_TYPES, "status": ("state",)}


class _Table:
    """Collects the columns of jobs, batch by batch."""

    def __init__(self, problems: Problems, clock: LocalClock) -> None:
        self.unfinished = self.unlimited = self.resized = 0
        self._counts_gpus = self._lacks_gpus = False  # Whether TRES have GPUs, and whether TRES lack GPUs of a command
        self.problems, self._clock = problems, clock
        self.names: Mapping[str, int] = {}
        words = {name: Codes(name_or_null) for name in (*_NAMES, *_OPTION_NAMES)}
        words |= {name: Codes(lambda text: gpu_type(text) or None) for name in _GPU_TYPES}
        self.columns = LogColumns(words | {"status": Codes(status_from_sacct)})
        self._memo = {kind: Memo(parse) for kind, parse in PARSERS.items()}

    def add(self, layout: Layout, columns: Columns, numbers: list[int]) -> None:
        """Add columns with one order of fields; drop records without a submit time."""
        self.names = layout.positions
        lines = columns[layout.positions["submitline"]] if "submitline" in layout.positions else ()
        requests = list(map(parse_submit_line, lines))
        batch = Batch(layout, columns, numbers, self.problems, self._clock, self._memo, requests)
        submit = batch.stamps("submit")[0]
        missing = np.isnan(submit)
        if missing.any():
            for k in np.flatnonzero(missing).tolist():
                self.problems.drop(numbers[k], "no submit time", columns[layout.positions["submit"]][k], where="Submit")
            if not missing.all():
                self.add(layout, *rows_of(np.flatnonzero(~missing).tolist(), columns, numbers))
            return
        words = self.columns.words
        codes = {name: batch.codes(words[name], *fields) for name, fields in _CODED.items()}
        states = batch.text("state") or ()
        strange = rows_where(lambda text: not is_slurm_state(text), states)
        self.problems.unknown_at(strange, numbers, STRANGE_STATE, states)
        for name, option in _OPTION_NAMES.items():
            option_codes = batch.option_codes(words[name], option)
            codes[name] = np.where(codes[name] >= 0, codes[name], option_codes) if name in codes else option_codes
        types = words["gpu_type"].encode([f"gpu:{request.gpu_type}" for request in requests])
        codes["gpu_type"] = np.where(codes["gpu_type"] < 0, types, codes["gpu_type"]) if requests else codes["gpu_type"]
        measured = self._measure(batch, submit, codes["status"])
        self.columns.add(as_ids(columns[layout.job]), measured | {name: codes[name] for name in words})

    def _measure(self, batch: Batch, submit: np.ndarray, status: np.ndarray) -> dict[str, np.ndarray]:
        """Return all numeric columns of a batch."""
        elapsed = either(batch.number("number", "elapsedraw"), batch.number("duration", "elapsed"))
        run, wait = self._times(batch, submit, elapsed, status)
        limit, unlimited = batch.limit()
        self.unlimited += unlimited
        req_nodes = batch.number("number", "reqnodes")
        alloc_nodes = batch.number("number", "allocnodes", "nnodes")
        alloc = either(batch.number("number", "alloccpus", "ncpus"), batch.number("tres_cpu", "alloctres"))
        req = either(batch.number("number", "reqcpus"), batch.number("tres_cpu", "reqtres"))
        gpus, in_tres = batch.gpus(either(req_nodes, alloc_nodes)), batch.number("tres_gpu", "reqtres")
        self._counts_gpus |= bool((in_tres > 0).any())
        self._lacks_gpus |= bool(((in_tres == 0) & (gpus > 0)).any())
        cpu_time, held = batch.number("duration", "totalcpu"), positive(alloc)
        measured = {
            "submit_time": submit,
            "eligible_time": batch.stamps("eligible", submit)[0],
            "wait_time": wait,
            "run_time": run,
            "alloc_procs": held,
            "avg_cpu_time": cpu_time / held,
            "req_procs": positive(req),
            "req_time": limit,
            "req_mem_kib": either(
                batch.requested_memory(either(req_nodes, alloc_nodes), req),
                batch.of_requests(_per_gpu) * positive(gpus),
            ),
            "req_nodes": positive(either(req_nodes, batch.number("tres_node", "reqtres"))),
            "alloc_nodes": positive(either(alloc_nodes, batch.number("tres_node", "alloctres"))),
            "req_gpus": gpus,
            **{
                name: batch.of_requests(partial(_option_number, option=option, pattern=pattern))
                for name, (option, pattern) in _OPTION_NUMBERS.items()
            },
        }
        return measured | {name: batch.number(*field) for name, field in _NUMBERS.items() if name not in measured}

    def _times(
        self, batch: Batch, submit: np.ndarray, elapsed: np.ndarray, status: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return run times and waits, and count jobs that had not finished."""
        states = Nominal(status, tuple(self.columns.words["status"].names))
        start = batch.stamps("start", submit) if batch.text("start") is not None else None
        end = batch.stamps("end", submit)
        run, wait = run_and_wait(submit, start, end, elapsed, states, batch.held_something())
        self.unfinished += int(unfinished(states, end[0]).sum())
        self.resized += int(states.is_any(["resizing"]).sum())
        sound, rule = self.problems.without_negative, "negative, read as unknown"
        run = sound(run, batch.lines, f"run time (end before start): {rule}")
        return run, sound(wait, batch.lines, f"wait (start before submission): {rule}")

    def trace(self, source: str, records: Records, more: Sequence[str] = ()) -> Trace:
        """Return all jobs as a sorted trace, with the notes `more` first; InputError if there is no job."""
        if not self.columns.jobs:
            steps = f"; {records.steps} job steps were ignored" if records.steps else ""
            raise input_error(source, "the file has no job record" + steps + self.problems.because(), hint=COMMAND)
        columns = self.columns.join()
        ids: Any = columns.pop("job_id")
        nodes: Any = columns.get("alloc_nodes", columns.get("req_nodes", np.ones(len(ids))))
        measured, outgrew = records.peaks.by_record(ids.tolist(), nodes)
        columns |= {name: values for name, values in measured.items() if not np.isnan(values).all()}
        if self._lacks_gpus and not self._counts_gpus:  # this site does not account GPUs, so 0 is not known
            gpus: Any = columns["req_gpus"]
            columns["req_gpus"] = np.where(gpus > 0, gpus, np.nan)
        status = columns.get("status")
        outgrew &= status.is_any(["failed"]) if isinstance(status, Nominal) else False
        if isinstance(status, Nominal) and outgrew.any():
            columns["status"] = status.where(outgrew, OUT_OF_MEMORY)
        columns["job_id"] = ids
        columns, is_sorted = in_log_order(columns)
        dropped = self.problems.counts() | ({"job step (only jobs count)": records.steps} if records.steps else {})
        remarks = {
            "jobs had not finished when the dump was written: run time unknown": self.unfinished,
            "records describe an earlier size of a job (RESIZING)": self.resized,
            "jobs have no time limit (UNLIMITED): requested time unknown": self.unlimited,
        }
        notes = [
            *more,
            *records.notes(),
            *records.peaks.notes(),
            *([f"{outgrew.sum()} {_OUTGROWN}"] if outgrew.any() else []),
            *self.problems.notes(),
            *(f"{count} {words}" for words, count in remarks.items() if count),
            *self._clock.notes(),
        ]
        notes += [] if is_sorted else [SORTED]
        header = {"columns": "|".join(self.names), **self._clock.header()}
        info = LogInfo(source=source, format="sacct", header=header, dropped=dropped, notes=tuple(notes))
        return Trace(columns, info, is_sorted=True)
