# SPDX-License-Identifier: Apache-2.0
"""Reads a table of finished VASP runs (one OUTCAR per row) as a trace with the features of the runs' inputs."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...errors import input_error
from ...table import LogInfo, Nominal, Trace
from .features import TEXT_FEATURES, features
from .incar import parse_incar
from .poscar import Poscar, Potential

COPY = ("date", "elapsed_s", "cpu_s", "maxmem_kb")
NEEDED = (*COPY, "cores", "titel", "zval", "ions_per_type", "nkpts", "nbands", "nelect", "encut", "prec", "ispin",
          "lhfcalc", "lreal", "nelm", "ediff", "volume")  # fmt: skip


class Runs(NamedTuple):
    """Distinct runs in time order: the trace, and for each job its system (chemical formula) and its kind of
    calculation."""

    trace: Trace
    system: np.ndarray
    kind: np.ndarray


def read_runs(path: str | Path) -> Runs:
    """Read the runs that have an elapsed time; rows with equal date, elapsed time, CPU time and memory are one run.

    The CSV has one row per OUTCAR with the columns `NEEDED`. Features follow `vasp.features` as far as the table of
    runs has the data: ISYM, ISTART, ICHARG, NELMIN and EDIFFG are VASP's defaults. The submission is the time at which
    VASP began; the wait is 0. A *system* is a chemical formula with any geometry and potentials, because features do
    not distinguish geometries. Rows that were dropped are counted in `info.dropped`. An InputError names the file and
    line.
    """
    name = str(path)
    dropped = {"no elapsed time": 0, "copy of a run (same date, elapsed, CPU time, memory)": 0}
    unfinished, copy = dropped
    runs: dict[tuple[str, ...], dict[str, str]] = {}
    for line, row in _rows(Path(path), name):
        key = tuple(row[column] for column in COPY)
        if not row["elapsed_s"]:
            dropped[unfinished] += 1
        elif key in runs:
            dropped[copy] += 1
        else:
            runs[key] = row | {"line": str(line)}
    return _runs(list(runs.values()), LogInfo(source=name, format="csv", dropped=dropped), name)


def _rows(path: Path, name: str) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        opened: Any = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", newline="", encoding="utf-8") as file:
            table = csv.DictReader(file)
            if missing := [column for column in NEEDED if column not in (table.fieldnames or ())]:
                raise input_error(name, f"no column {', '.join(missing)}", line=1, accepted=", ".join(NEEDED))
            for row in table:
                if None in row or None in row.values():
                    raise input_error(name, "not as many cells as columns", line=table.line_num)
                yield table.line_num, row
    except (UnicodeDecodeError, csv.Error, EOFError, zlib.error):
        accepted = f"one row per OUTCAR with the columns {', '.join(NEEDED)}"
        hint = f"jobs that `batchcast vasp collect` wrote: batchcast runtime {name} --predictor irpa,brbf,boosted"
        raise input_error(name, "not a CSV of finished VASP runs", accepted=accepted, hint=hint) from None
    except OSError as error:
        what, hint = f"cannot be read ({error.strerror or error})", "--data with the path of vasp-klimes.csv.gz"
        raise input_error(name, what, hint=hint) from None


def _runs(rows: list[dict[str, str]], info: LogInfo, name: str) -> Runs:
    cells: dict[str, list[Any]] = {}
    for row in rows:
        try:
            when = datetime.strptime(" ".join(row["date"].split()), "%Y.%m.%d %H:%M:%S").replace(tzinfo=UTC)
            run = {"submit_time": when.timestamp(), "wait_time": 0.0, "run_time": float(row["elapsed_s"])}
            run |= {"req_procs": float(row["cores"])}
            system = _formula(row["titel"], row["ions_per_type"])
            kind = f"{'HF' if row['lhfcalc'].startswith('T') else 'PBE'}, ENCUT {float(row['encut']):g} eV"
            for column, value in {**run, **_features(row), "system": system, "kind": kind}.items():
                cells.setdefault(column, []).append(value)
        except (ValueError, IndexError) as error:
            raise input_error(name, f"a run that cannot be read: {error}", line=int(row["line"])) from None
    order = np.argsort(np.array(cells["submit_time"]), kind="stable")
    system_of, kind_of = (np.array(cells.pop(column))[order] for column in ("system", "kind"))
    columns = {k: Nominal.encode(v) if k in TEXT_FEATURES else np.array(v, float) for k, v in cells.items()}
    return Runs(Trace.from_arrays(columns, info), system_of, kind_of)


def _features(row: Mapping[str, str]) -> Mapping[str, float | str]:
    tags = ("PREC", "LREAL", "LHFCALC", "ISPIN", "NELM", "EDIFF", "ENCUT", "NBANDS", "NELECT")
    incar = parse_incar("\n".join(f"{tag} = {row[tag.lower()]}" for tag in tags))
    counts = tuple(int(n) for n in row["ions_per_type"].split())
    cell = Poscar(((0.0,) * 3,) * 3, float(row["volume"]), 1.0, (), counts)
    potentials = [
        Potential(titel, float(zval), float(row["encut"]), False)
        for titel, zval in zip(row["titel"].split(";"), row["zval"].split(";"))
    ]
    return features(incar, cell, int(row["nkpts"]), potentials).values


def _formula(titel: str, counts: str) -> str:
    """Return the chemical formula, such as `C2H6`, from potentials' titles and ion counts; elements are sorted.

    >>> _formula("PAW_PBE H_h 06Feb2004;PAW_PBE C_s 06Sep2000", "4 1")
    'C1H4'
    """
    atoms: Counter[str] = Counter()
    for name, count in zip(titel.split(";"), counts.split()):
        atoms[name.split()[1].split("_")[0]] += int(count)
    return "".join(f"{element}{number}" for element, number in sorted(atoms.items()))
