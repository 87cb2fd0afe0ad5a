"""Input files of a small VASP run, as text that a test can change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

INCAR = "ENCUT = 400\nISPIN = 1\n"
POSCAR = "salt\n1.0\n4 0 0\n0 4 0\n0 0 4\nNa Cl\n1 1\nDirect\n0 0 0\n0.5 0.5 0.5\n"
KPOINTS = "mesh\n0\nGamma\n2 2 2\n0 0 0\n"


def potential(element: str, zval: float, enmax: float, ultrasoft: bool = False, numbers: int = 50) -> str:
    """Return one potential in the layout of a POTCAR, with invented numbers."""
    return (
        f"  PAW_PBE {element} 06Sep2000\n   {zval}\n parameters from PSCTR are:\n   VRHFIN ={element}: s1\n"
        f"   LEXCH  = PE\n   TITEL  = PAW_PBE {element} 06Sep2000\n"
        f"   LULTRA =        {'T' if ultrasoft else 'F'}    use ultrasoft PP ?\n   IUNSCR =        0\n"
        f"   POMASS =   22.990; ZVAL   =    {zval:.3f}    mass and valenz\n   RCORE  =    2.200\n"
        f"   ENMAX  =  {enmax:.3f}; ENMIN  =   76.476 eV\n   END of PSCTR-controll parameters\n local part\n"
        + "  0.25480E+02 -0.25480E+02  0.25479E+02\n" * numbers
        + " End of Dataset\n"
    )


POTCAR = potential("Na", 1.0, 101.968) + potential("Cl", 7.0, 262.472)


@pytest.fixture
def working_directory(tmp_path: Path) -> Callable[..., Path]:
    """Writes a working directory; `directory(INCAR=...)` replaces one file, and None omits it."""

    def write(name: str = "run", **bent: str | None) -> Path:
        here = tmp_path / name
        here.mkdir(parents=True, exist_ok=True)
        files = {"INCAR": INCAR, "POSCAR": POSCAR, "KPOINTS": KPOINTS, "POTCAR": POTCAR, **bent}
        for file, text in files.items():
            if text is not None:
                (here / file).write_text(text)
        return here

    return write


@pytest.fixture
def make_potential() -> Callable[..., str]:
    """The builder of potentials."""
    return potential
