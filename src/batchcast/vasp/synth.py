# SPDX-License-Identifier: Apache-2.0
"""Synthetic VASP jobs at the scale of Wu et al. 2019: what its private logs let a method meet, seeded."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..errors import UsageError
from ..table import LogInfo, Nominal, Trace
from .features import MEANINGS

JOBS = 16_700
TEXT = ("prec", "lreal")
KEYS = (
    # ISPIN, ISYM, LREAL, PREC and their share of the jobs: three above the 3,000 of 13,360 that BRBF asks for
    ((1, 2, "auto", "normal"), 0.31),
    ((2, 0, "auto", "accurate"), 0.28),
    ((1, 0, "false", "accurate"), 0.27),
    ((2, 2, "false", "normal"), 0.06),
    ((2, 0, "auto", "normal"), 0.03),
    ((1, 2, "false", "high"), 0.02),
    ((1, 1, "true", "medium"), 0.02),
    ((2, 3, "true", "low"), 0.01),
)
SHARES: Mapping[str, tuple[tuple[float, float], ...]] = {
    # minutes and the share of jobs that run at most so long: table 2, and what is said of the second set
    "first": ((1, 0.0), (5, 0.2), (30, 0.557), (60, 0.653), (90, 0.702), (120, 0.735), (150, 0.76), (180, 0.785),
              (720, 0.93), (4320, 1.0)),
    "second": ((1, 0.0), (5, 0.22), (30, 0.60), (60, 0.68), (90, 0.72), (120, 0.75), (150, 0.775), (180, 0.80),
               (720, 0.93), (4320, 1.0)),
}  # fmt: skip


def draw_vasp_log(rng: np.random.Generator, jobs: int = JOBS, *, users: int = 120, shares: str = "first") -> Trace:
    """A log of finished VASP jobs with the features of their inputs and many users.

    Parameters
    ----------
    rng : numpy.random.Generator
        Where the draws come from; the same state gives the same log.
    jobs : int
        How many, at least 100.
    users : int
        How many users there may be, at least 1; a few submit most jobs.
    shares : {"first", "second"}
        Run times as table 2 of the paper shares them out, or as its second set of 5,600 jobs (68 % within an hour, 75 %
        within two).

    Returns
    -------
    Trace
        Columns of `vasp.features` (ISTART always 0: the paper leaves continuations out), `user_id`, `req_procs`,
        submissions over half a year, waits of 0.

    Raises
    ------
    UsageError
        For too few jobs or users, or other shares.

    Notes
    -----
    Not a model of anybody's cluster: it lets every branch of the methods be exercised (a network for each of three
    keys, users to cluster, every bin of Tables 3 and 4), and confirms no printed figure. A user has a few systems and
    repeats them in sessions; the work of a job grows with bands, ions, k-points and cutoff as plane-wave codes' does,
    times what its key costs and log-normal noise; the ranks of the works are then given the run times of `shares`.

    References
    ----------
    Wu, Shen, Zhang, Liao, Wang & Li, Runtime prediction of jobs for backfilling optimization, 2019, tables 1 and 2.

    Examples
    --------
    >>> log = draw_vasp_log(np.random.default_rng(0), 500)
    >>> len(log), bool((log.run_time > 0).all())
    (500, True)
    """
    if jobs < 100 or users < 1 or shares not in SHARES:
        raise UsageError(f"a VASP log of {jobs} jobs, {users} users, shares {shares!r} (accepted: from 100, from 1, "
                         f"{' or '.join(SHARES)})")  # fmt: skip
    systems = _systems(rng, 6 * users)
    busy = 1.0 / np.arange(1, users + 1)
    owner = rng.choice(users, len(systems["volume"]), p=busy / busy.sum())
    chosen = _sessions(rng, jobs, owner)
    columns = {name: values[chosen] for name, values in systems.items()}
    columns["req_procs"] = 2.0 ** rng.integers(3, 9, jobs)
    columns["kpoints"] = np.where(rng.random(jobs) < 0.2, columns["kpoints"] * 8, columns["kpoints"])
    work = (
        1.5 * np.log(columns["nbands"]) + np.log(columns["kpoints"]) + np.log(columns["nions"])
        + 1.5 * np.log(columns["encut"]) - 0.7 * np.log(columns["req_procs"]) + columns.pop("cost")
        + 0.35 * np.log(columns["nelm"]) + rng.normal(0.0, 0.5, jobs)
    )  # fmt: skip
    rank = (np.argsort(np.argsort(work, kind="stable"), kind="stable") + 0.5) / jobs
    minutes, below = np.array(SHARES[shares]).T
    columns["run_time"] = np.ceil(60.0 * np.exp(np.interp(rank, below, np.log(minutes))))
    columns["submit_time"] = np.floor(np.sort(rng.uniform(0.0, 182 * 86400.0, jobs)))
    columns["wait_time"] = np.zeros(jobs)
    names = {name: Nominal.encode([str(v) for v in columns.pop(name).tolist()]) for name in TEXT}
    names["user_id"] = Nominal.encode([f"u{k}" for k in owner[chosen].tolist()])
    info = LogInfo(source=f"synthetic VASP jobs ({shares} set)", format="synthetic")
    return Trace.from_arrays({**columns, **names}, info)


def _systems(rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    """Features of so many systems with the settings their users gave them, and `cost`, what the key costs."""
    ions = np.ceil(np.exp(rng.normal(3.4, 0.9, count)))
    electrons = np.ceil(ions * rng.uniform(3.0, 9.0, count))
    key = rng.choice(len(KEYS), count, p=[share for _, share in KEYS])
    spin, symmetry, real, precision = (np.array([k[0][part] for k in KEYS], dtype=object)[key] for part in range(4))
    ediff = 10.0 ** -rng.integers(4, 8, count)
    columns: dict[str, np.ndarray] = {
        "kpoints": rng.choice([1, 2, 4, 8, 16, 36, 64], count).astype(float),
        "volume": ions * rng.uniform(12.0, 30.0, count),
        "prec": precision,
        "ichg": np.full(count, 2.0),
        "isym": symmetry.astype(float),
        "lreal": real,
        "ispin": spin.astype(float),
        "istart": np.zeros(count),
        "nelmin": rng.choice([2.0, 4.0, 6.0], count, p=[0.7, 0.2, 0.1]),
        "nelm": rng.choice([60.0, 100.0, 200.0], count, p=[0.6, 0.3, 0.1]),
        "ediff": ediff,
        "ediffg": np.where(rng.random(count) < 0.5, 10 * ediff, -rng.choice([0.01, 0.02, 0.05], count)),
        "encut": rng.choice([300.0, 400.0, 450.0, 500.0, 520.0, 600.0], count),
        "nbands": np.ceil(0.6 * electrons) * np.where(spin == 2, 1.2, 1.0) // 1,
        "nions": ions,
        "nelect": electrons,
        "cost": rng.normal(0.0, 0.6, len(KEYS))[key] + 0.7 * (spin == 2),
    }
    assert set(MEANINGS) <= set(columns)
    return columns


def _sessions(rng: np.random.Generator, jobs: int, owner: np.ndarray) -> np.ndarray:
    """Which system each job runs: sessions of some jobs of one system after another, key shares kept."""
    length = rng.geometric(0.2, jobs)
    system = rng.integers(0, len(owner), jobs)
    return np.repeat(system, length)[:jobs]
