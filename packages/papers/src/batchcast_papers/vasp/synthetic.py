# SPDX-License-Identifier: Apache-2.0
"""Draws synthetic logs of VASP jobs, of the size of the private logs of Wu et al. 2019."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from batchcast.errors import UsageError
from batchcast.inputs.features import TEXT_FEATURES
from batchcast.table import LogInfo, Nominal, Trace

JOBS = 16_700
KEYS = (
    # ISPIN, ISYM, LREAL, PREC and the share of jobs with this key: three keys have more than the 3,000 of 13,360 rows
    # that BRBF needs
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
    # limits in minutes, and the fraction of jobs that run at most this long, from the paper's table 2 and its text
    # about the second set
    "first": ((1, 0.0), (5, 0.2), (30, 0.557), (60, 0.653), (90, 0.702), (120, 0.735), (150, 0.76), (180, 0.785),
              (720, 0.93), (4320, 1.0)),
    "second": ((1, 0.0), (5, 0.22), (30, 0.60), (60, 0.68), (90, 0.72), (120, 0.75), (150, 0.775), (180, 0.80),
               (720, 0.93), (4320, 1.0)),
}  # fmt: skip


def draw_vasp_log(rng: np.random.Generator, jobs: int = JOBS, *, users: int = 120, shares: str = "first") -> Trace:
    """Draw a log of finished VASP jobs of many users, with the features of the jobs' inputs.

    >>> log = draw_vasp_log(np.random.default_rng(0), 500)
    >>> len(log), bool((log.run_time > 0).all())
    (500, True)
    """
    # The synthetic log is not a model of a real cluster. The synthetic log exercises every branch of the methods (a
    # network for each of three keys, users to cluster, every bin of Tables 3 and 4), and cannot confirm the paper's
    # figures. A user has a few chemical systems and repeats runs of these systems in sessions. The work of a job grows
    # with bands, ions, k-points and cutoff as in plane-wave codes, times a factor of its key and log-normal noise. The
    # jobs are then ranked by work, and run times that are distributed as `shares` says are assigned by rank.
    #
    # Wu, Shen, Zhang, Liao, Wang & Li, Runtime prediction of jobs for backfilling optimization, 2019, tables 1 and 2.
    if jobs < 100 or users < 1 or shares not in SHARES:
        raise UsageError(f"a VASP log of {jobs} jobs, {users} users, shares {shares!r} (accepted: from 100, from 1, "
                         f"{' or '.join(SHARES)})")  # fmt: skip
    systems = _systems(rng, 6 * users)
    busy = 1.0 / np.arange(1, users + 1)
    owner = rng.choice(users, len(systems["volume"]), p=busy / busy.sum())
    # jobs come in sessions with one system, so that the keys keep their shares of the jobs
    length = rng.geometric(0.2, jobs)
    chosen = np.repeat(rng.integers(0, len(owner), jobs), length)[:jobs]
    columns = {name: values[chosen] for name, values in systems.items()}
    columns |= {"req_procs": 2.0 ** rng.integers(3, 9, jobs), "wait_time": np.zeros(jobs)}
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
    names = {name: Nominal.encode([str(v) for v in columns.pop(name).tolist()]) for name in TEXT_FEATURES}
    names["user_id"] = Nominal.encode([f"u{k}" for k in owner[chosen].tolist()])
    info = LogInfo(source=f"synthetic VASP jobs ({shares} set)", format="synthetic")
    return Trace.from_arrays({**columns, **names}, info)


def _systems(rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    """Draw the features of systems with their users' settings, and `cost`, the factor by which the key multiplies the
    work."""
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
    return columns
