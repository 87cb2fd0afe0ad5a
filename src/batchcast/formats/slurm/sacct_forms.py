# SPDX-License-Identifier: Apache-2.0
"""The formats of sacct's columns, and the repair of lines whose text columns contain the delimiter."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from .sbatch import parse_submit_line

_UNKNOWN = r"|Unknown|None|N/A|INVALID"
_TIME = rf"\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?\S*|\d{{1,12}}(\.\d*)?{_UNKNOWN}"
_DURATION = rf"(\d+-)?\d+(:\d+){{0,2}}(\.\d+)?|UNLIMITED|Partition_Limit|INVALID{_UNKNOWN}"
_NUMBER = r"\d*\.?\d*"
_TRES = r"([\w./:-]+=[\w.]+(,[\w./:-]+=[\w.]+)*)?"
_USAGE = r"([\w./:-]+=\S*)?"
_SIZE = rf"-?\d*(\.\d+)?[KMGTPE]?{_UNKNOWN}"
_WORD = r"\S*"
_WHOLE = (
    "elapsedraw", "reqcpus", "alloccpus", "ncpus", "reqnodes", "allocnodes", "nnodes", "restarts", "uid", "gid",
    "priority", "cputimeraw", "ntasks", "associd", "dbindex", "qosraw", "reservationid", "wckeyid", "resvcpuraw",
    "plannedcpuraw", "maxdiskreadtask", "maxdiskwritetask", "maxpagestask", "maxrsstask", "maxvmsizetask", "mincputask",
)  # fmt: skip
_DURATIONS = ("elapsed", "totalcpu", "cputime", "suspended", "systemcpu", "usercpu")
_EMPTY_DURATIONS = ("timelimit", "timelimitraw", "planned", "reserved", "avecpu", "mincpu", "resvcpu", "plannedcpu")
"""Durations that sacct can leave empty, for jobs or for steps. The durations above always have a value."""
_SIZES = (
    "averss", "avepages", "avevmsize", "avediskread", "avediskwrite", "maxrss", "maxpages", "maxvmsize", "maxdiskread",
    "maxdiskwrite", "avecpufreq", "consumedenergy", "consumedenergyraw",
)  # fmt: skip
_WORDS = (
    "blockid", "flags", "layout", "mcslabel", "qosreq", "reservation", "reqreservation", "failednode", "sluid",
    "reqcpufreq", "reqcpufreqmin", "reqcpufreqmax", "reqcpufreqgov", "reqgres", "reqtresgpu", "allocgres",
    "maxdiskreadnode", "maxdiskwritenode", "maxpagesnode", "maxrssnode", "maxvmsizenode", "mincpunode",
)  # fmt: skip
_FORMS = {
    "jobid": r"\d+([_+]\S+)?(\.\S+)?",
    "jobidraw": r"\d+(\+\d+)?(\.\S+)?",
    "state": r"[A-Z][A-Z_]*\+?( by \S+)?",
    "reqmem": r"(\d+(\.\d+)?[KMGTPE]?[nc]?|\?)?",
    "nodelist": r"None assigned|\S*",
    "reason": r".*",
    "": _WORD,  # the empty field after the last delimiter of `sacct -p`, or a row number that a spreadsheet added
    "submit": _TIME,
    **dict.fromkeys(("eligible", "start", "end"), rf"({_TIME})?"),
    **dict.fromkeys(("exitcode", "derivedexitcode"), r"(\d+:\d+)?"),
    **dict.fromkeys(_DURATIONS, _DURATION),
    **dict.fromkeys(_EMPTY_DURATIONS, rf"({_DURATION})?"),
    **dict.fromkeys(_WHOLE, _NUMBER),
    **dict.fromkeys(_SIZES, _SIZE),
    **dict.fromkeys(_WORDS, _WORD),
    **dict.fromkeys(("reqtres", "alloctres"), _TRES),
    **{
        f"tresusage{way}{what}": _USAGE
        for way in ("in", "out")
        for what in ("ave", "max", "maxnode", "maxtask", "min", "minnode", "mintask", "tot")
    },
    **dict.fromkeys(("user", "group", "qos", "account", "partition", "cluster"), r"[^\s/]*"),
}
_TEXT_FORMS = {
    "jobname": r".*",
    "workdir": r"(/.*)?",
    "submitline": r"([\w./~+-]*(sbatch|srun|salloc|scrun|scrontab)[\w.+-]*(\s.*)?)?",
    "constraints": r"([^\s|&]+([|&][^\s|&]+)*)?",
}
"""Text columns that are read and can contain the delimiter. Other text columns (comments, paths) have no format."""
_SAID = {"constraints": "constraint", "jobname": "job-name"}
"""Text columns whose value the submit command can repeat, with the name of the option."""
_CHECKS = {name: re.compile(form, re.DOTALL).fullmatch for name, form in (_FORMS | _TEXT_FORMS).items()}
MOST_PIECES = 64


def check_of(name: str) -> Callable[[str], object] | None:
    """Return the check for a column: a function that tells whether a field has the column's format; None for any text.

    Examples
    --------
    >>> bool(check_of("submit")("2026-03-01T10:00:00")), bool(check_of("submit")("relax")), check_of("comment")
    (True, False, None)
    """
    return _constraint if name == "constraints" else None if name == "jobname" else _CHECKS.get(name)


def _constraint(text: str) -> bool:
    """Whether a text can be a Slurm constraint, in which no operand is empty and every bracket is closed."""
    return bool(_CHECKS["constraints"](text)) and all(text.count(a) == text.count(b) for a, b in ("[]", "()"))


def may_hold_delimiters(name: str) -> bool:
    """Whether a column can be free text, and so can contain delimiters; True for unknown columns."""
    return name not in _FORMS


def is_read(name: str) -> bool:
    """Whether the repair of a line must make this column's value certain: the column has a known format, or batchcast
    uses its text.
    """
    return name in _CHECKS


class Taken(NamedTuple):
    """A line split into fields. `fields` is None if no split fits; `undecided` is True if several splits fit and
    differ.
    """

    fields: list[str] | None
    undecided: bool = False


def take_apart(names: Sequence[str], pieces: Sequence[str], delimiter: str) -> Taken:
    """Split a line with more pieces than columns, if the formats of the other columns show to which text columns the
    surplus pieces belong.

    Parameters
    ----------
    names
        The columns in lower case, n names.
    pieces
        The texts between the line's delimiters, n or more.
    delimiter
        The delimiter, which is put back between pieces of one text column.

    Returns
    -------
    Taken

    Notes
    -----
    The function examines every way to assign the surplus pieces to text columns. An assignment fits if every column of
    known format has its format. All assignments that fit must agree on each column that batchcast reads (`is_read`). If
    assignments differ in a text that the submit command repeats (`-C`, `-J` in SubmitLine), the command decides.
    O(columns * surplus**2).

    Examples
    --------
    >>> take_apart(["jobid", "jobname", "state"], ["7", "a", "b", "FAILED"], "|")
    Taken(fields=['7', 'a|b', 'FAILED'], undecided=False)
    >>> take_apart(["jobid", "constraints", "jobname"], ["7", "intel", "amd", "j"], "|")
    Taken(fields=None, undecided=True)
    """
    surplus = len(pieces) - len(names)
    if not 0 < surplus <= MOST_PIECES:
        return Taken(None)
    ways = _Ways(names, pieces, delimiter)
    if not ways.edges[0]:
        return Taken(None)
    if ways.undecided():
        ways.ask_the_command()
    return Taken(None, undecided=True) if ways.undecided() else Taken(ways.fields())


class _Ways:
    """All ways to assign the pieces of a broken line to columns. `edges[k]` has pairs: the number of surplus pieces
    used before column k, and the number used up to and including column k."""

    def __init__(self, names: Sequence[str], pieces: Sequence[str], delimiter: str) -> None:
        self.names, self.pieces, self.delimiter = names, pieces, delimiter
        self.edges: list[list[tuple[int, int]]] = []
        surplus, here = len(pieces) - len(names), {0}
        for k, name in enumerate(names):
            check = check_of(name)
            last = surplus if may_hold_delimiters(name) else -1
            self.edges.append(
                [
                    (before, after)
                    for before in sorted(here)
                    for after in range(before, max(before, last) + 1)
                    if check is None or check(self.text(k, before, after))
                ]
            )
            here = {after for _, after in self.edges[k]}
        self._keep({surplus})

    def text(self, k: int, before: int, after: int) -> str:
        """Returns the text of column k if `before` surplus pieces are used before it and `after` up to and including
        it."""
        return self.delimiter.join(self.pieces[k + before : k + after + 1])

    def undecided(self) -> list[int]:
        """Returns the columns that batchcast reads and whose text is not the same in all remaining assignments."""
        return [k for k, name in enumerate(self.names) if is_read(name) and len(self.edges[k]) != 1]

    def ask_the_command(self) -> None:
        """Keeps the assignments in which texts equal the options in the submit command, if exactly one reading of the
        command fits."""
        if "submitline" not in self.names:
            return
        every, line = self.edges, self.names.index("submitline")
        agreeing = []
        for edge in every[line]:
            self.edges = [[edge] if k == line else edges for k, edges in enumerate(every)]
            if self._agree(parse_submit_line(self.text(line, *edge))):
                agreeing.append(self.edges)
        self.edges = agreeing[0] if len(agreeing) == 1 else every

    def _agree(self, options: Mapping[str, str]) -> bool:
        """Keeps the assignments in which texts that contain a delimiter equal the command's options. Returns whether a
        text contains a delimiter.
        """
        agrees = False
        for k, name in enumerate(self.names):
            text = options.get(_SAID.get(name, ""), "")
            same = [edge for edge in self.edges[k] if self.text(k, *edge) == text] if self.delimiter in text else []
            self.edges[k] = same or self.edges[k]
            agrees |= bool(same)
        here = {0}
        for k, edges in enumerate(self.edges):
            self.edges[k] = [edge for edge in edges if edge[0] in here]
            here = {after for _, after in self.edges[k]}
        self._keep({len(self.pieces) - len(self.names)})
        return agrees and all(self.edges)

    def fields(self) -> list[str]:
        """Returns the fields of one of the remaining assignments, which all agree on the columns that batchcast
        reads."""
        fields, before = [], 0
        for k, edges in enumerate(self.edges):
            after = next(end for start, end in edges if start == before)
            fields.append(self.text(k, before, after))
            before = after
        return fields

    def _keep(self, ends: set[int]) -> None:
        """Drops the assignments that do not use all pieces of the line."""
        for k in range(len(self.edges) - 1, -1, -1):
            self.edges[k] = [edge for edge in self.edges[k] if edge[1] in ends]
            ends = {before for before, _ in self.edges[k]}
