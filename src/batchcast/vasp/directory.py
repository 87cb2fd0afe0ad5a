"""A working directory into features: the thin shell that opens the four files."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import InputError, input_error
from .features import Features, features
from .incar import parse_incar
from .kpoints import parse_kpoints
from .poscar import parse_poscar
from .potcar import Potential, scan_potcar

INPUTS = ("INCAR", "POSCAR", "POTCAR", "KPOINTS")
LARGEST = 64 << 20
POTENTIALS_MET: dict[bytes, int] = {}  # their lengths, so that the next POTCAR is skipped through


def read_features(directory: str | Path, *, look_for_wavecar: bool = True) -> Features:
    """The features of a working directory's INCAR, POSCAR, POTCAR and (where there is one) KPOINTS.

    `look_for_wavecar` lets a WAVECAR that is there and not empty stand for a continuation (ISTART=1), which is right
    before a run; after it the run's own WAVECAR is there and says nothing, so `collect` does not look. Raises
    InputError naming file, line and tag. About a millisecond for 1,000 ions and 40 potentials; a potential never met
    in this process adds a scan of its part of POTCAR (see `scan_potcar`).
    """
    here = os.fspath(directory)
    if not os.path.isdir(here):
        raise input_error(here, "is not a directory", hint="the working directory of a VASP job")
    incar = parse_incar(_text(here, "INCAR"), f"{here}/INCAR")
    poscar = parse_poscar(_text(here, "POSCAR"), f"{here}/POSCAR")
    kpoints = None
    if os.path.exists(f"{here}/KPOINTS"):
        kpoints = parse_kpoints(_text(here, "KPOINTS"), poscar.lattice, poscar.scale, f"{here}/KPOINTS")
    potentials = _potentials(here)
    wavecar = look_for_wavecar and _size(f"{here}/WAVECAR") > 0
    return features(incar, poscar, kpoints, potentials, has_wavecar=wavecar, path=here)


def changed_at(directory: str | Path) -> float:
    """When the newest of the four inputs was last written, epoch seconds; NaN where none is there."""
    times = []
    for name in INPUTS:
        try:
            times.append(os.stat(f"{os.fspath(directory)}/{name}").st_mtime)
        except OSError:
            continue
    return max(times, default=float("nan"))


def _text(here: str, name: str) -> str:
    """A text input; odd bytes in comments do not matter."""
    path = f"{here}/{name}"
    try:
        if os.stat(path).st_size > LARGEST:
            raise input_error(path, "is larger than any VASP input", accepted=f"at most {LARGEST >> 20} MiB")
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise _unreadable(path, error) from None
    if b"\x00" in data[:4096]:
        raise input_error(path, "is not text", hint="a compressed or binary file under this name?")
    return data.decode("utf-8", errors="replace")


def _potentials(here: str) -> tuple[Potential, ...]:
    path = f"{here}/POTCAR"
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise _unreadable(path, error) from None
    try:
        return scan_potcar(descriptor, path, POTENTIALS_MET)
    except OSError as error:
        raise _unreadable(path, error) from None
    finally:
        os.close(descriptor)


def _unreadable(path: str, error: OSError) -> InputError:
    if isinstance(error, FileNotFoundError):
        return input_error(path, "is missing", accepted="INCAR, POSCAR and POTCAR of the run (KPOINTS or KSPACING)")
    return input_error(path, f"cannot be read ({error.strerror})")


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
