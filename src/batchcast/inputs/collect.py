# SPDX-License-Identifier: Apache-2.0
"""Reads features from one working directory, or from the working directories of a log's jobs."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from ..document import dumps
from ..errors import InputError, NoAnswer, input_error
from ..table import Nominal, Trace, Values
from ..trace.input_files import (
    CHANGED,
    NO_DIRECTORY,
    NO_INPUTS,
    READ,
    STATUS,
    UNREADABLE,
    VANISHED,
    Folder,
    reader_for,
)
from .espresso import PREFIX
from .features import MEANINGS, TEXT_FEATURES, Features, features
from .incar import NUMBER_TAGS, TAG_PREFIX, TEXT_TAGS, parse_incar, parse_kpoints, tag_default, tag_values
from .poscar import parse_poscar, scan_potcar

ACCEPTED = "INCAR, POSCAR and POTCAR of the run (KPOINTS or KSPACING)"
POTENTIALS_MET: dict[bytes, int] = {}  # lengths of known potentials, so that later scans can skip them
LIVE_TAGS = (*NUMBER_TAGS, *(tag for tag in TEXT_TAGS if tag != "LREAL"))
"""The INCAR tags that become columns of a live job: they have a default, so that every job has a value."""


class VaspInputs:
    """Reads the features of a VASP job, for the collector and for commands that take a directory.

    References
    ----------
    G. Wu et al., "Runtime prediction of jobs for backfilling optimization", 2019, Table 1 (the features).

    Examples
    --------
    >>> VaspInputs().columns["incar_nsw"]
    'NSW of the INCAR'
    """

    columns = MEANINGS | {f"{TAG_PREFIX}{tag.lower()}": f"{tag} of the INCAR" for tag in LIVE_TAGS}

    def is_here(self, folder: Folder) -> bool:
        """Return whether the directory has an INCAR."""
        return folder.has("INCAR")

    def read(self, folder: Folder, before: float = math.inf) -> Mapping[str, float | str]:
        """Return the paper's features, and a column for each tag in `LIVE_TAGS`.

        A WAVECAR means a continuation only if it was written at most a second after `before`.
        """
        found = features_of(folder, wavecar_until=before + 1.0, tags=LIVE_TAGS).values
        return {name: found[name] if name in found else tag_default(name) for name in self.columns}


def read_features(directory: str | Path, *, look_for_wavecar: bool = True, tags: Sequence[str] | None = ()) -> Features:
    """Return the features of a working directory's INCAR, POSCAR, POTCAR and (if present) KPOINTS.

    With `look_for_wavecar` an existing, non-empty WAVECAR counts as a continuation (ISTART=1). Use `look_for_wavecar`
    only before a run. After a run the directory contains the run's own WAVECAR, so `collect` does not look for it.
    `tags` are further INCAR tags that become columns `incar_...`; None means all tags. InputError names file, line and
    tag. Reading takes about a millisecond for 1,000 ions and 40 potentials. A potential that this process has not read
    before is first scanned by `scan_potcar`, which takes longer.
    """
    here = os.fspath(directory)
    if not os.path.isdir(here):
        raise input_error(here, "is not a directory", hint="the working directory of a VASP job")
    return features_of(Folder(here), wavecar_until=math.inf if look_for_wavecar else -math.inf, tags=tags)


def features_of(folder: Folder, *, wavecar_until: float, tags: Sequence[str] | None = ()) -> Features:
    """Return the features of an open directory; a WAVECAR written after `wavecar_until` (epoch s) is ignored."""
    here = folder.path
    for name in ("INCAR", "POSCAR", "POTCAR"):
        if not folder.has(name):
            raise input_error(f"{here}/{name}", "is missing", accepted=ACCEPTED)
    incar = parse_incar(folder.text("INCAR"), f"{here}/INCAR")
    poscar = parse_poscar(folder.text("POSCAR"), f"{here}/POSCAR")
    kpoints = None
    if folder.has("KPOINTS"):
        kpoints = parse_kpoints(folder.text("KPOINTS"), poscar.lattice, poscar.scale, f"{here}/KPOINTS")
    with folder.open("POTCAR") as file:
        potentials = scan_potcar(file.fileno(), f"{here}/POTCAR", POTENTIALS_MET)
    wavecar = folder.status("WAVECAR")
    continues = wavecar is not None and wavecar.st_size > 0 and wavecar.st_mtime <= wavecar_until
    read = features(incar, poscar, kpoints, potentials, has_wavecar=continues, path=here)
    return replace(read, values={**read.values, **tag_values(incar.texts, tags, f"{here}/INCAR")})


Changed = Literal["auto", "drop", "keep"]


class Visit(NamedTuple):
    """The result of reading a directory: status, features or the reason why there are none, time of the last change
    (epoch s)."""

    status: str
    values: Mapping[str, float | str] | None
    reason: str
    changed_at: float


@dataclass(frozen=True, slots=True)
class Collected:
    """The result of `collect`: the log with features; the numbers of jobs and directories by status; error messages and
    remarks."""

    trace: Trace
    jobs: Mapping[str, int]
    directories: Mapping[str, int]
    problems: Sequence[str]
    notes: Sequence[str]


def collect(
    trace: Trace,
    root: str | Path,
    *,
    strip: str = "",
    tags: Sequence[str] | None = (),
    changed: Changed = "auto",
    previous: Trace | None = None,
    journal: str | Path | None = None,
    tick: Callable[[int], None] = lambda done: None,
) -> Collected:
    """Return the log with a column for each feature, and a column `input_files` with the status of each job's inputs.

    Each INCAR tag in `tags` becomes a column too (`incar_nsw`); None means every tag that an INCAR has. If an INCAR
    does not have the tag, the column has VASP's default (`tag_default`). Every distinct `work_dir` is read once, below
    the folder `root`, after the prefix `strip` was removed. Only the features are stored, not the content of files.
    Jobs of missing or unreadable directories have no features. If input files were written after a job's submission,
    they may not be the inputs of its run: `changed` decides whether the features of changed input files are dropped or
    kept. `auto` drops these features, unless every directory is newer than the end of the whole log, which happens only
    if the directories were copied. A WAVECAR is ignored, because it may come from the run itself (see `read_features`).
    `previous` is an earlier result, which gives the features of jobs whose directories no longer exist. `journal` is a
    file that records the result of every directory, so that an interrupted run can continue. The cost per directory is
    the cost of `read_features`.
    """
    where = trace.nominal("work_dir").decode()
    used = sorted({str(name) for name in where if name is not None})
    if not used:
        hint = "sacct -P -o ALL, or at least JobID,Submit,Start,End,State,User,AllocCPUS,WorkDir"
        raise NoAnswer(f"{trace.info.source}: no job names its working directory", hint=hint)
    wanted = "all tags" if tags is None else " ".join(tags)
    with _journal(journal, [str(root), strip, wanted]) as (known, note):
        for done, work_dir in enumerate(used, start=1):
            if work_dir not in known:
                known[work_dir] = visit(work_dir, str(root), strip, tags)
                note(work_dir, known[work_dir])
            tick(done)
    return _joined(trace, where, {work_dir: known[work_dir] for work_dir in used}, changed, previous)


def visit(work_dir: str, root: str, strip: str = "", tags: Sequence[str] | None = ()) -> Visit:
    """Return the features of a job's working directory, or the reason why they cannot be read."""
    path = locate(work_dir, root, strip)
    if path is None or not os.path.isdir(path):
        return Visit(VANISHED, None, f"{path or work_dir}: does not exist", math.nan)
    folder = Folder(path)
    try:
        reader = reader_for(folder)
        if reader is None:
            return Visit(NO_INPUTS, None, f"{path}: contains neither an INCAR nor an input of pw.x", math.nan)
        is_vasp = isinstance(reader, VaspInputs)
        values = features_of(folder, wavecar_until=-math.inf, tags=tags).values if is_vasp else reader.read(folder)
    except InputError as error:
        return Visit(UNREADABLE, None, error.message, max(folder.changes, default=math.nan))
    return Visit(READ, values, "", max(folder.changes, default=math.nan))


def locate(work_dir: str, root: str, strip: str = "") -> str | None:
    """Return the path of a working directory below `root`; None if the path would leave `root`.

    >>> locate("/scratch/ada/run1", "/mnt/copy", "/scratch"), locate("/mnt/copy/x", "/mnt/copy")
    ('/mnt/copy/ada/run1', '/mnt/copy/x')
    """
    top = os.path.abspath(root)
    direct = os.path.normpath(work_dir)
    if not strip and os.path.isabs(direct) and os.path.commonpath([top, direct]) == top:
        return direct
    rest = work_dir.removeprefix(strip.rstrip("/")) if strip else work_dir
    path = os.path.normpath(os.path.join(top, rest.lstrip("/")))
    return path if os.path.commonpath([top, path]) == top else None


def _joined(
    trace: Trace, where: Sequence[Any], visits: Mapping[str, Visit], changed: Changed, previous: Trace | None
) -> Collected:
    """Add features to the jobs; apply the rule for changed inputs, and use the features of an earlier run."""
    of_jobs = [Visit(NO_DIRECTORY, None, "", math.nan) if name is None else visits[str(name)] for name in where]
    submitted = trace.submit_time + trace.info.unix_start
    # a file system may store times in whole seconds
    is_late = np.array([one.changed_at for one in of_jobs]) > submitted + 1.0
    notes = []
    ends = np.nansum([trace.submit_time, trace.wait_time, trace.run_time], axis=0) + trace.info.unix_start
    read_at = [one.changed_at for one in visits.values() if one.status == READ]
    if changed == "auto" and is_late.any() and min(read_at, default=-math.inf) > float(ends.max()):
        notes.append(
            "every input was written after the last job of the log ended: this is a copy that lost its file times, "
            "so they are ignored (--changed drop to leave such jobs out)"
        )
        changed = "keep"
    elif changed == "keep" and is_late.any():
        notes.append(f"{int(is_late.sum())} jobs keep features of inputs written after their submission")
    if changed != "keep":
        dropped = Visit(CHANGED, None, "", math.nan)
        of_jobs = [dropped if one.status == READ and late else one for one, late in zip(of_jobs, is_late.tolist())]
    lost = {VANISHED, NO_INPUTS, UNREADABLE} | ({CHANGED} if changed != "drop" else set())
    earlier = _earlier_values(previous)
    recovered = {
        row: earlier[job] for row, job in enumerate(_jobs(trace)) if of_jobs[row].status in lost and job in earlier
    }
    if recovered:
        notes.append(f"{len(recovered)} jobs keep the features of an earlier collect")
    values = [recovered.get(row, one.values) for row, one in enumerate(of_jobs)]
    status = [READ if row in recovered else one.status for row, one in enumerate(of_jobs)]
    further = sorted({name for one in values if one is not None for name in one} - set(MEANINGS))
    columns: dict[str, Values] = {name: _column(name, values) for name in (*MEANINGS, *further)}
    columns[STATUS] = Nominal.encode(status)
    problems = [one.reason for one in visits.values() if one.status == UNREADABLE]
    directories = _counts([one.status for one in visits.values()])
    return Collected(trace.with_columns(columns).knowing(further), _counts(status), directories, problems, notes)


def _column(name: str, values: Sequence[Mapping[str, float | str] | None]) -> Values:
    """Return a feature or tag of every job: unknown if the job's input files were not read, the default if the tag is
    absent."""
    default = tag_default(name) if name.startswith(TAG_PREFIX) else None
    cells = [None if one is None else one.get(name, default) for one in values]
    if name in TEXT_FEATURES or isinstance(default, str) or any(isinstance(cell, str) for cell in cells):
        return Nominal.encode(cells)
    return np.array([math.nan if cell is None else cell for cell in cells], dtype=float)


def _jobs(trace: Trace) -> Iterator[tuple[str, float]]:
    """Return the id and the submission (epoch s) of each job, by which two logs are compared."""
    return zip(map(str, trace.job_id.tolist()), (trace.submit_time + trace.info.unix_start).tolist())


def _earlier_values(previous: Trace | None) -> dict[tuple[str, float], Mapping[str, Any]]:
    """Return the features and tags of each job (id and submission) that an earlier run of `collect` read."""
    if previous is None or STATUS not in previous.names:
        return {}
    names = [name for name in previous.names if name in MEANINGS or name.startswith((TAG_PREFIX, PREFIX))]
    columns = [c.decode() if isinstance(c, Nominal) else c.tolist() for c in map(previous.column, names)]
    jobs = zip(_jobs(previous), previous.nominal(STATUS).decode(), zip(*columns))
    return {job: dict(zip(names, values)) for job, status, values in jobs if status == READ}


def _counts(words: Sequence[str]) -> dict[str, int]:
    """Count each status, in a fixed order."""
    order = (READ, CHANGED, VANISHED, NO_INPUTS, UNREADABLE, NO_DIRECTORY)
    return {word: words.count(word) for word in order if word in words}


@contextmanager
def _journal(
    path: str | Path | None, places: list[str]
) -> Iterator[tuple[dict[str, Visit], Callable[[str, Visit], object]]]:
    """Yield the results of an interrupted run with the same arguments, and a function that records a directory."""
    if path is None:
        yield {}, lambda work_dir, visit_made: None
        return
    known: dict[str, Visit] = {}
    lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines() if Path(path).exists() else []
    for line in filter(None, lines[1:] if lines[:1] == [json.dumps(places)] else ()):
        with suppress(ValueError):  # the last line is incomplete if the earlier run was interrupted there
            work_dir, status, values, reason, changed = json.loads(line)
            known[work_dir] = Visit(status, values, reason, math.nan if changed is None else changed)
    with Path(path).open("a" if known else "w", encoding="utf-8", buffering=1) as file:
        file.write("\n" if known else json.dumps(places) + "\n")  # the interrupted run may have ended within a line
        yield known, lambda work_dir, visit_made: file.write(dumps([work_dir, *visit_made], None) + "\n")
