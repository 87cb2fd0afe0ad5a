# SPDX-License-Identifier: Apache-2.0
"""Convert columns of text to numbers and codes, one batch of rows at a time.

The readers of sacct dumps and of other people's CSV files share this code.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from ..errors import UsageError
from ..job import is_slurm_state
from ..units import parse_duration, parse_memory
from .chunks import Codes, Problems, rows_where
from .memory import MOST_KIB, per_gpu
from .slurm.resources import gres_gpus, parse_tres, tres_gpus
from .slurm.sacct_lines import Layout
from .slurm.sbatch import command_digest, parse_submit_line, submitted_command
from .times import STAMP_FORMS, LocalClock, Stamps, no_stamps, parse_stamps

BROKEN_MEMORY = "reqmem: more than a pebibyte, read from ReqTRES or AllocTRES if they have an amount"
STRANGE_STATE = "state: not a Slurm state, kept unchanged (a truncated line can have such a state)"
NULL = {"", "Unknown", "None", "N/A", "(null)", "None assigned"}
BAD, UNLIMITED = math.inf, -math.inf


_MOST_CACHED = 500_000


class Memo(dict[str, float]):
    """A cache of the number for each distinct text. Texts that cannot be parsed map to +inf (`BAD`)."""

    def __init__(self, parse: Callable[[str], float]) -> None:
        self._parse = parse

    def __missing__(self, text: str) -> float:
        try:
            value = UNLIMITED if text.strip().lower() == "unlimited" else float(self._parse(text))
            value = value if value >= 0 or math.isnan(value) or value == UNLIMITED else BAD
        except (ValueError, UsageError):
            value = BAD
        if len(self) < _MOST_CACHED:
            self[text] = value
        return value

    def of(self, texts: Sequence[str]) -> np.ndarray:
        """Return the numbers of texts, shape (n,)."""
        return np.fromiter(map(self.__getitem__, texts), dtype=float, count=len(texts))


def name_or_null(text: str) -> str | None:
    """Return the text without blanks at its ends, or None if it stands for no value."""
    word = text.strip()
    return None if word in NULL else word


def _plain_number(text: str) -> float:
    """Returns a text as a number, NaN if it is empty."""
    return float(text) if text.strip() else math.nan


def _minutes(text: str) -> float:
    """Returns seconds for whole minutes (TimelimitRaw) or for a Slurm duration."""
    return float(text) * 60 if text.strip().isdecimal() else parse_duration(text)


def memos() -> dict[str, Memo]:
    """Return one cache of parsed texts for each kind of number (counts, durations, sizes). All batches of a dump share
    its caches."""
    return {
        "number": Memo(_plain_number),
        "duration": Memo(parse_duration),
        "minutes": Memo(_minutes),
        "memory": Memo(parse_memory),
        "per": Memo(lambda text: {"n": 1.0, "c": 2.0}.get(text[-1:].lower(), 0.0)),
        "tres_cpu": Memo(lambda text: _plain_number(parse_tres(text).get("cpu", ""))),
        "tres_mem": Memo(lambda text: parse_memory(parse_tres(text).get("mem", ""))),
        "tres_node": Memo(lambda text: _plain_number(parse_tres(text).get("node", ""))),
        "mem_per_gpu": Memo(per_gpu),
        "tres_gpu": Memo(tres_gpus),
        "gres_gpu": Memo(gres_gpus),
        **{name: Memo(partial(_said, pattern=pattern, option=option)) for name, (option, pattern) in _SAID.items()},
    }


_SAID = {
    "exclusive": ("exclusive", r"(?:^$|^user|^mcs|^topo|^true)()"),
    "array_throttle": ("array", r"%(\d{1,9})$"),
    "nice": ("nice", r"^(\d{1,10})?$"),
    "cpus_per_task": ("cpus-per-task", r"^(\d{1,6})$"),
}
SAID_NUMBERS = tuple(_SAID)
"""Columns of numbers that are read from the submit command (sacct's SubmitLine)."""
_BARE = {"exclusive": 1.0, "nice": 100.0}  # value of an option without an argument; --nice lowers priority by 100


def _said(line: str, option: str, pattern: str) -> float:
    """Returns the number in an option of the submit command: the option's default if the option has no value, NaN if
    the option is absent.

    >>> _said("sbatch --exclusive x", "exclusive", "(?:^$)()"), _said("sbatch -a 1-9%2 x", "array", r"%(\\d+)$")
    (1.0, 2.0)
    """
    value = parse_submit_line(line).get(option)
    match = None if value is None else re.search(pattern, value)
    return math.nan if match is None else float(match[1]) if match[1] else _BARE[option]


class Batch:
    """Converts rows with the same order of fields to columns. Unreadable values become unknown and are reported with
    their line number.

    Parameters
    ----------
    layout
        Position of each field in a row.
    columns
        The cells of the text, one sequence per column.
    lines
        Line number of each row in the file.
    problems
        Collects the reports about broken lines and values.
    memo
        The caches of `memos`.
    """

    def __init__(
        self,
        layout: Layout,
        columns: Sequence[Sequence[str]],
        lines: Sequence[int],
        problems: Problems,
        memo: Mapping[str, Memo],
    ) -> None:
        self._layout, self._columns, self._lines = layout, columns, lines
        self._problems, self._memo = problems, memo

    def text(self, *names: str) -> Sequence[str] | None:
        """Return the first of the named columns that exists, or None."""
        index = self._layout.first(*names)
        return None if index is None else self._columns[index]

    def stamps(self, clock: LocalClock, name: str) -> Stamps:
        """Parse a column of time stamps.

        Parameters
        ----------
        clock
            Converts local times to epoch seconds.
        name
            The column.

        Returns
        -------
        tuple of ndarray
            Epoch seconds (NaN if there is no such column), and for times in an hour that a clock change repeats, the
            number of seconds from the first to the second pass of the hour.
        """
        texts = self.text(name)
        if texts is None:
            return no_stamps(len(self._lines))
        epoch, later, bad = parse_stamps(texts, clock)
        self._report(bad, f"{name}: not a valid time, read as unknown (accepted: {STAMP_FORMS})", texts)
        return epoch, later

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
        broken, per = amount > MOST_KIB, self._raw("per", "reqmem")
        self._report(np.flatnonzero(broken).tolist(), BROKEN_MEMORY, self.text("reqmem") or ())
        for kind, count in ((1.0, nodes), (2.0, procs)):  # amounts are per node (suffix `n`) or processor (suffix `c`)
            amount = np.where((per == kind) & (count > 0), amount * count, amount)
        whole = either(np.where(broken, np.nan, amount), in_tres)
        if not broken.any():
            return whole
        return either(whole, np.where(broken, self.number("tres_mem", "alloctres"), np.nan))

    def memory_per_gpu(self, gpus: np.ndarray) -> np.ndarray:
        """Return the memory of the whole job in KiB, from --mem-per-gpu in SubmitLine."""
        return np.asarray(self.number("mem_per_gpu", "submitline") * positive(gpus))

    def gpus(self, nodes: np.ndarray) -> np.ndarray:
        """Return the GPUs of the whole job, from ReqTRES, else AllocTRES, else ReqGRES (which counts per node)."""
        gpus = either(self.number("tres_gpu", "reqtres"), self.number("tres_gpu", "alloctres"))
        return either(gpus, self.number("gres_gpu", "reqgres", "reqtresgpu") * np.where(nodes > 0, nodes, 1.0))

    def codes(self, words: Codes, *names: str) -> np.ndarray:
        """Return the codes of the first named column; if a job's cell in this column is empty, the next column is
        used."""
        codes = np.full(len(self._lines), -1, dtype=np.int32)
        for name in names:
            texts = self.text(name)
            if texts is not None and (codes < 0).any():
                codes = np.where(codes < 0, words.of(texts), codes)
        return codes

    def report_states(self, name: str) -> None:
        """Report job states that Slurm does not have. Unknown job states are kept unchanged."""
        texts = self.text(name) or ()
        self._report(rows_where(lambda text: not is_slurm_state(text), texts), STRANGE_STATE, texts)

    def said(self, words: Codes, option: str) -> np.ndarray:
        """Return the codes of an option's values in the submit commands; -1 for jobs without the option.

        For `partition`, only lists of several partitions get a code, because sacct prints a single partition in the
        column Partition. The option name `command` means the script and its arguments.
        """
        texts = self.text("submitline")
        if texts is None:
            return np.full(len(self._lines), -1, dtype=np.int32)
        if option == "command":
            values = [command_digest(submitted_command(text)) or "" for text in texts]
        else:
            values = [parse_submit_line(text).get(option, "") for text in texts]
        if option == "partition":
            values = [text if "," in text else "" for text in values]
        return words.of(values)

    def held_something(self) -> np.ndarray:
        """Whether the record shows that a job had processors or nodes, for each job, shape (n,)."""
        if (nodes := self.text("nodelist")) is not None:
            return np.array([text.strip().lower() not in ("", "none assigned", "none", "(null)") for text in nodes])
        if (tres := self.text("alloctres")) is not None:
            # For a job that was cancelled in the queue, AllocCPUS repeats the request, but AllocTRES is empty.
            return np.array([bool(text.strip()) for text in tres])
        return (self.number("number", "alloccpus") > 0) | (self.number("number", "allocnodes") > 0)

    def not_negative(self, values: np.ndarray, what: str) -> np.ndarray:
        """Return the values with negative values replaced by NaN, and report the negative values."""
        return self._problems.without_negative(values, self._lines, f"{what}: negative, read as unknown")

    def _raw(self, kind: str, *names: str) -> np.ndarray:
        """Returns the parsed values of the first column that exists, else NaN; infinities still mark unlimited and
        unreadable values.
        """
        texts = self.text(*names)
        if texts is None:
            return np.full(len(self._lines), np.nan)
        if kind == "number" and "".join(texts).isdecimal() and all(texts):
            return np.fromiter(map(float, texts), dtype=float, count=len(texts))
        values = self._memo[kind].of(texts)
        bad = np.flatnonzero(values == BAD).tolist()
        self._report(bad, f"{names[0]}: not a valid value, read as unknown", texts)
        values[bad] = np.nan
        return values

    def _report(self, rows: Sequence[int], what: str, texts: Sequence[str]) -> None:
        """Reports that the values in some rows are read as unknown."""
        self._problems.unknown_at(rows, self._lines, what, texts)


def either(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the first column, with unknown values replaced by values of the second column."""
    return np.where(np.isnan(first), second, first)


def positive(values: np.ndarray) -> np.ndarray:
    """Return the values with 0 and negative values replaced by NaN."""
    return np.where(values > 0, values, np.nan)
