"""Speed of the VASP methods: features of a directory, training on 6,000 jobs, one prediction."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import numpy as np

from batchcast.events.event import End
from batchcast.events.state import SystemState
from batchcast.inputs.collect import POTENTIALS_MET, read_features
from batchcast.inputs.poscar import BLOCK, parse_poscar, scan_potcar
from batchcast.job import JobRequest
from batchcast.predict.registry import make

METHODS = ("irpa", "irpa:upper=forest", "brbf", "brbf:key_min=200", "forest", "svr", "bayesian_ridge", "boosted")
ELEMENTS, ATOMS, JOBS = 40, 1000, 6000


def run() -> None:
    """Print both tables."""
    features_of_a_directory()
    training_and_prediction()


def features_of_a_directory() -> None:
    """A cell of 1,000 ions of 40 elements; potentials of 300 kB each, 12 MB together."""
    with tempfile.TemporaryDirectory() as folder:
        here = write_directory(Path(folder))
        size = (here / "POTCAR").stat().st_size / 1e6
        potcar, poscar = os.open(here / "POTCAR", os.O_RDONLY), (here / "POSCAR").read_text()
        print(f"{'features of a directory':46s} {'CPU ms: median':>16s} {'least':>6s}")
        rows: dict[str, Callable[[], object]] = {
            f"first sight of its potentials ({size:.0f} MB POTCAR)": lambda: (
                POTENTIALS_MET.clear(),
                read_features(here),
            ),
            "  of that, POTCAR": lambda: scan_potcar(potcar),
            "  of that, its bytes through memory": lambda: read_all(potcar),
            "  of that, POSCAR": lambda: parse_poscar(poscar),
            "potentials met before in this process": lambda: read_features(here),
        }
        for name, task in rows.items():
            least, middle = timed(task)
            print(f"{name:46s} {middle:16.2f} {least:6.2f}")
        os.close(potcar)
        print(f"{'first sight, page cache dropped: wall clock':46s} {cold(here):16.2f}")


def read_all(descriptor: int) -> None:
    """Read the file through one block of memory and search the block for a letter: a lower bound for any scan."""
    buffer, at = bytearray(BLOCK), 0
    while length := os.preadv(descriptor, [buffer], at):
        buffer.find(b"\x01", 0, length)
        at += length


def cold(here: Path) -> float:
    """Print median milliseconds of wall-clock time if the inputs must come from the disk."""
    times = []
    for _ in range(9):
        for path in here.iterdir():
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
        POTENTIALS_MET.clear()
        began = perf_counter()
        read_features(here)
        times.append(perf_counter() - began)
    return 1000 * median(times)


def training_and_prediction() -> None:
    """Train on 6,000 jobs whose features all vary, then predict 300 jobs one by one."""
    requests, run_time = jobs(JOBS + 300)
    print(f"\n{'method':22s} {'training, CPU s':>16s} {'ms a prediction':>16s} {'apa':>6s}")
    for spec in METHODS:
        method, state = make("runtime", spec), SystemState()
        for job, seconds in zip(requests[:JOBS], run_time):
            method.observe(End(1e9, job, seconds, 0.0), state)
        began = process_time()
        method.refit(1e9)
        training = process_time() - began
        points, times = [], []
        for job in requests[JOBS:]:
            began = process_time()
            points.append(method.predict(job, state).point)
            times.append(process_time() - began)
        actual, predicted = run_time[JOBS:], np.array(points)
        apa = (np.minimum(predicted, actual) / np.maximum(predicted, actual)).mean()
        print(f"{spec:22s} {training:16.2f} {1000 * median(times):16.2f} {apa:6.3f}")


def timed(task: Callable[[], object], repeats: int = 200) -> tuple[float, float]:
    """Return minimum and median milliseconds of processor time."""
    times = []
    for _ in range(repeats):
        began = process_time()
        task()
        times.append(process_time() - began)
    return 1000 * min(times), 1000 * median(times)


def write_directory(here: Path) -> Path:
    """Return inputs with invented numbers in VASP's layout."""
    rng = np.random.default_rng(0)
    counts = " ".join([str(ATOMS // ELEMENTS)] * ELEMENTS)
    positions = "\n".join(f"{x:.16f} {y:.16f} {z:.16f} T T F" for x, y, z in rng.random((ATOMS, 3)))
    (here / "INCAR").write_text("PREC = Accurate\nENCUT = 500\nISPIN = 2\nMAGMOM = 1000*0.6\nLREAL = Auto\n")
    (here / "KPOINTS").write_text("mesh\n0\nGamma\n2 2 2\n0 0 0\n")
    (here / "POSCAR").write_text(f"c\n1.0\n20 0 0\n0 20 0\n0 0 20\n{counts}\nSelective dynamics\nDirect\n{positions}\n")
    with (here / "POTCAR").open("w") as file:
        for k in range(ELEMENTS):
            name = f"PAW_PBE X{k} 06Sep2000"
            file.write(
                f"  {name}\n   8.0\n parameters from PSCTR are:\n   TITEL  = {name}\n   LULTRA =        F\n"
                f"   POMASS =   55.847; ZVAL   =    8.000    mass and valenz\n"
                f"   ENMAX  =  267.882; ENMIN  =  200.911 eV\n   END of PSCTR-controll parameters\n"
            )
            file.write("  0.25480E+02  0.25480E+02  0.25479E+02 -0.25478E+02  0.25476E+02\n" * 4500)
            file.write(" End of Dataset\n")
    return here


def jobs(n: int) -> tuple[list[JobRequest], np.ndarray]:
    """Return invented jobs: the run time grows with bands, k-points and cutoff, with an unexplained spread."""
    rng = np.random.default_rng(1)
    columns = {
        "kpoints": rng.choice([1.0, 8.0, 27.0, 64.0], n), "volume": rng.uniform(50, 3000, n),
        "prec": rng.choice(["normal", "accurate", "low"], n), "ichg": rng.choice([1.0, 2.0], n),
        "isym": rng.choice([0.0, 2.0], n), "lreal": rng.choice(["false", "auto"], n),
        "ispin": rng.choice([1.0, 2.0], n),
        "istart": np.zeros(n), "nelmin": rng.choice([2.0, 6.0], n), "nelm": rng.choice([60.0, 100.0], n),
        "ediff": rng.choice([1e-4, 1e-5, 1e-6], n), "ediffg": rng.choice([-0.02, -0.01, 1e-3], n),
        "encut": rng.choice([300.0, 400.0, 520.0], n), "nbands": rng.integers(10, 600, n).astype(float),
    }  # fmt: skip
    procs = rng.choice([16.0, 32.0, 64.0], n)
    run = columns["nbands"] ** 1.5 * columns["kpoints"] * (columns["encut"] / 400) ** 1.5 * columns["ispin"] / procs
    run = np.maximum(run * rng.lognormal(0, 0.5, n), 1.0)
    plain = {name: values.tolist() for name, values in columns.items()}
    extras = [dict(zip(plain, row)) for row in zip(*plain.values())]
    return [JobRequest(k, k, float(k), procs[k], 1e9, float("nan"), extra=extras[k]) for k in range(n)], run
