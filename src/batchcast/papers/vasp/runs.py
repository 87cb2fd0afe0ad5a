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
from typing import NamedTuple

import numpy as np

from ...errors import input_error
from ...table import LogInfo, Nominal, Trace
from .features import MEANINGS, features
from .incar import Incar, Kpoints, parse_incar
from .poscar import Poscar, Potential

COPY = ("date", "elapsed_s", "cpu_s", "maxmem_kb")
NEEDED = (*COPY, "cores", "titel", "zval", "ions_per_type", "nkpts", "nbands", "nelect", "encut", "prec", "ispin",
          "lhfcalc", "lreal", "nelm", "ediff", "volume")  # fmt: skip
TEXT = ("prec", "lreal")


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
    name, unfinished, copies = str(path), 0, 0
    runs: dict[tuple[str, ...], dict[str, str]] = {}
    for line, row in _rows(Path(path), name):
        key = tuple(row[column] for column in COPY)
        if not row["elapsed_s"]:
            unfinished += 1
        elif key in runs:
            copies += 1
        else:
            runs[key] = row | {"line": str(line)}
    dropped = {"no elapsed time": unfinished, "copy of a run (same date, elapsed, CPU time, memory)": copies}
    return _runs(list(runs.values()), LogInfo(source=name, format="csv", dropped=dropped), name)


def _rows(path: Path, name: str) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        with (
            gzip.open(path, "rt", newline="", encoding="utf-8")
            if path.suffix == ".gz"
            else path.open(newline="", encoding="utf-8") as file
        ):
            table = csv.DictReader(file)
            missing = [column for column in NEEDED if column not in (table.fieldnames or ())]
            if missing:
                raise input_error(name, f"no column {', '.join(missing)}", line=1, accepted=", ".join(NEEDED))
            for row in table:
                if None in row or None in row.values():
                    raise input_error(name, "not as many cells as columns", line=table.line_num)
                yield table.line_num, row
    except (UnicodeDecodeError, csv.Error, EOFError, zlib.error):
        raise input_error(
            name,
            "not a CSV of finished VASP runs",
            accepted=f"one row per OUTCAR with the columns {', '.join(NEEDED)}",
            hint=f"jobs that `batchcast vasp collect` wrote: batchcast runtime {name} --predictor irpa,brbf,boosted",
        ) from None
    except OSError as error:
        raise input_error(
            name, f"cannot be read ({error.strerror or error})", hint="--data with the path of vasp-klimes.csv.gz"
        ) from None


def _runs(rows: list[dict[str, str]], info: LogInfo, name: str) -> Runs:
    known: list[Mapping[str, float | str]] = []
    columns: dict[str, list[float]] = {"submit_time": [], "wait_time": [], "run_time": [], "req_procs": []}
    systems, kinds = [], []
    for row in rows:
        try:
            known.append(_features(row))
            when = datetime.strptime(" ".join(row["date"].split()), "%Y.%m.%d %H:%M:%S").replace(tzinfo=UTC)
            columns["submit_time"].append(when.timestamp())
            columns["wait_time"].append(0.0)
            columns["run_time"].append(float(row["elapsed_s"]))
            columns["req_procs"].append(float(row["cores"]))
            systems.append(_formula(row["titel"], row["ions_per_type"]))
        except (ValueError, IndexError) as error:
            raise input_error(name, f"a run that cannot be read: {error}", line=int(row["line"])) from None
        kinds.append(f"{'HF' if row['lhfcalc'].startswith('T') else 'PBE'}, ENCUT {float(row['encut']):g} eV")
    order = np.argsort(np.array(columns["submit_time"]), kind="stable")
    extra = {
        f: Nominal.encode([k[f] for k in known]) if f in TEXT else np.array([float(k[f]) for k in known])
        for f in MEANINGS
    }
    trace = Trace.from_arrays({**columns, **extra}, info)
    return Runs(trace, np.array(systems)[order], np.array(kinds)[order])


def _features(row: Mapping[str, str]) -> Mapping[str, float | str]:
    tags = ("PREC", "LREAL", "LHFCALC", "ISPIN", "NELM", "EDIFF", "ENCUT", "NBANDS", "NELECT")
    incar: Incar = parse_incar("\n".join(f"{tag} = {row[tag.lower()]}" for tag in tags))
    counts = tuple(int(n) for n in row["ions_per_type"].split())
    cell = Poscar(((0.0,) * 3,) * 3, float(row["volume"]), 1.0, (), counts, True, False)
    potentials = [
        Potential(titel, float(zval), float(row["encut"]), False)
        for titel, zval in zip(row["titel"].split(";"), row["zval"].split(";"))
    ]
    return features(incar, cell, Kpoints("explicit", int(row["nkpts"])), potentials).values


def _formula(titel: str, counts: str) -> str:
    """Return the chemical formula, such as `C2H6`, from potentials' titles and ion counts; elements are sorted.

    >>> _formula("PAW_PBE H_h 06Feb2004;PAW_PBE C_s 06Sep2000", "4 1")
    'C1H4'
    """
    atoms: Counter[str] = Counter()
    for name, count in zip(titel.split(";"), counts.split()):
        atoms[name.split()[1].split("_")[0]] += int(count)
    return "".join(f"{element}{number}" for element, number in sorted(atoms.items()))
