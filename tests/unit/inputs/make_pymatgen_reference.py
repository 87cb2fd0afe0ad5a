"""Write pymatgen_reference.json: what pymatgen reads from input files that it wrote, as numbers.

    pip install pymatgen && PYTHONPATH=. python tests/unit/inputs/make_pymatgen_reference.py

pymatgen with its dependencies has a fifth of a gigabyte, and its results for these inputs do not change between test
runs. So the tests compare with the stored file, and only a developer who changes the inputs installs pymatgen.
"""

from __future__ import annotations

import json
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

ELEMENTS = ("H", "C", "O", "Fe", "Zn", "Zr", "Cl")
TAGS: dict[str, tuple[Any, ...]] = {
    "PREC": ("Accurate", "Normal", "Low"),
    "LREAL": ("Auto", "False", "True"),
    "ENCUT": (100.0, 412.345, 999.999, 520),
    "EDIFF": (1e-4, 1e-6, 5e-8),
    "EDIFFG": (-0.02, 1e-3),
    "NELM": (1, 60, 200),
    "NELMIN": (2, 8),
    "ISPIN": (1, 2),
    "ISYM": (-1, 0, 3),
    "ICHARG": (0, 1, 2, 11),
    "NBANDS": (1, 77, 500),
    "LHFCALC": (True, False),
    "MAGMOM": ([3], [1, -1, 0], [0, 0, 0, 2, 2, -3], [1, 1, 1, 1, -1, -1, -1, -1]),
}
CASES = 24


def structures(random: np.random.Generator) -> list[dict[str, Any]]:
    """POSCAR texts in every form, with the volume and the ions of the structure from which each was written."""
    from pymatgen.core import Lattice, Structure
    from pymatgen.io.vasp.inputs import Poscar

    found = []
    for k in range(CASES):
        lattice = Lattice.from_parameters(*random.uniform(2.0, 20.0, 3), *random.uniform(65.0, 115.0, 3))
        kinds = random.choice(ELEMENTS, random.integers(1, 5))
        species = [str(kind) for kind in kinds for _ in range(random.integers(1, 6))]
        structure = Structure(lattice, species, random.random((len(species), 3)))
        is_direct, is_vasp4, is_selective = (bool(k >> bit & 1) for bit in range(3))
        flags = [[True, False, True]] * len(structure) if is_selective else None
        written = Poscar(structure, selective_dynamics=flags, sort_structure=False)
        text = written.get_str(direct=is_direct)
        if is_vasp4:
            lines = text.splitlines(keepends=True)
            text = "".join(lines[:5] + lines[6:])
        found.append(
            {
                "text": text, "volume": float(structure.volume), "ions": len(structure),
                "counts": list(written.natoms), "species": [] if is_vasp4 else list(written.site_symbols),
                "direct": is_direct, "selective": is_selective,
            }
        )  # fmt: skip
    return found


def tags(random: np.random.Generator) -> list[dict[str, Any]]:
    """INCAR texts, and the values that pymatgen reads from them."""
    from pymatgen.io.vasp.inputs import Incar

    found = []
    for _ in range(CASES):
        drawn = {tag: values[random.integers(len(values))] for tag, values in TAGS.items() if random.random() < 0.6}
        text = str(Incar(drawn))
        found.append({"text": text, "values": dict(Incar.from_str(text))})
    return found


def grids(random: np.random.Generator) -> list[dict[str, Any]]:
    """KPOINTS texts of every mode in a cube of 4 angstrom, with the number of points."""
    from pymatgen.io.vasp.inputs import Kpoints

    found = []
    for k in range(8):
        grid = [int(one) for one in random.integers(1, 13, 3)]
        make = Kpoints.gamma_automatic if k % 2 else Kpoints.monkhorst_automatic
        found.append({"text": str(make(grid)), "grid": grid, "points": int(np.prod(grid))})
    modes = Kpoints.supported_modes
    points = [(0, 0, 0), (0, 0, 0.5), (0.5, 0.5, 0.5)]
    explicit = Kpoints("list", 3, modes.Reciprocal, points, kpts_weights=[1, 2, 1])
    found.append({"text": str(explicit), "points": explicit.num_kpts})
    path = [(0, 0, 0), (0.5, 0, 0), (0.5, 0, 0), (0.5, 0.5, 0)]
    line = Kpoints("line", 20, modes.Line_mode, path, coord_type="Reciprocal", labels=["G", "X", "X", "M"])
    found.append({"text": str(line), "points": line.num_kpts * len(path) // 2})
    return found


def potentials() -> list[dict[str, Any]]:
    """The keywords of two potentials, whose texts are in the tests' conftest."""
    from pymatgen.io.vasp.inputs import PotcarSingle
    from tests.unit.vasp.conftest import potential

    found = []
    for element, zval, enmax in (("Zn", 12.0, 276.7), ("O", 6.0, 400.0)):
        words = PotcarSingle(potential(element, zval, enmax)).keywords
        kept = {name: words[name] for name in ("ENMAX", "ZVAL", "LULTRA")}
        found.append({"element": element, "zval": zval, "enmax": enmax, "keywords": kept})
    return found


def directory() -> dict[str, Any]:
    """A whole directory of zinc oxide."""
    from pymatgen.core import Lattice, Structure
    from pymatgen.io.vasp.inputs import Incar, Kpoints, Poscar

    structure = Structure(Lattice.hexagonal(3.2, 5.1), ["Zn", "Zn", "O", "O"], np.eye(4, 3) / 3)
    files = {
        "POSCAR": Poscar(structure).get_str(),
        "INCAR": str(Incar({"PREC": "Accurate", "ISPIN": 2, "MAGMOM": [1, 1, 0, 0]})),
        "KPOINTS": str(Kpoints.gamma_automatic((6, 6, 4))),
    }
    return {"files": files, "volume": float(structure.volume)}


def main() -> None:
    """Write the reference file beside this program."""
    random = np.random.default_rng(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {
            "pymatgen": version("pymatgen"), "command": "python tests/unit/inputs/make_pymatgen_reference.py",
            "poscar": structures(random), "incar": tags(random), "kpoints": grids(random),
            "potcar": potentials(), "directory": directory(),
        }  # fmt: skip
    place = Path(__file__).with_name("pymatgen_reference.json")
    place.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
