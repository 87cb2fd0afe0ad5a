# SPDX-License-Identifier: Apache-2.0
"""Reads and draws jobs of a grid: expected-time matrices, jobs as CSV, jobs from a log."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from batchcast.broker.files import is_number, numbers, read_table, text_of
from batchcast.broker.model import Jobs
from batchcast.errors import UsageError, input_error
from batchcast.table import Trace

MATRIX_FORM = (
    "a first line 'jobs resources' (a third number there is ignored), then jobs x resources times, job by job; gzip is "
    "recognized by its content"
)


def read_matrix(path: str | Path) -> np.ndarray:
    """Read a matrix (n, m) of expected times in the form of Braun et al.; InputError names the first wrong value."""
    file = str(path)
    first, _, rest = text_of(path).lstrip().partition("\n")
    words = first.split()
    try:
        n, m = int(words[0]), int(words[1])
    except (IndexError, ValueError):
        value = " ".join(words[:3])
        raise input_error(file, "not an expected-time matrix", line=1, value=value, accepted=MATRIX_FORM) from None
    if n < 1 or m < 1:
        raise input_error(file, "an empty grid", line=1, value=f"{n} x {m}", accepted="at least one job and resource")
    values = words[3:] + rest.split()
    if len(values) != n * m:
        raise input_error(file, f"{len(values)} times, not {n} x {m} = {n * m}", accepted=MATRIX_FORM)
    try:
        times = np.array(values, dtype=np.float64)
    except ValueError:
        times = np.array([float(word) if is_number(word) else np.nan for word in values])
    for k in np.flatnonzero(~(np.isfinite(times) & (times >= 0))).tolist():
        value, accepted = (times[k], "finite, at least 0") if is_number(values[k]) else (values[k], "a number")
        raise input_error(file, f"time of job {k // m} on resource {k % m}", value=value, accepted=accepted)
    return times.reshape(n, m)


def read_jobs(path: str | Path) -> Jobs:
    """Read jobs from CSV: columns id, instructions (MI), file_mb, arrival and deadline (an instant; an empty cell means
    no deadline).

    A column `allowed` (time from arrival to deadline) may replace `deadline`. `cost_weight` is the user's weight of
    cost against time, 0 to 1 (empty: the heuristic's weight). A column `min_X` requests at least the given value of
    resource attribute X. A value that is not a number does not raise an error: the job is returned, and the simulation
    rejects and counts the job.
    """
    more = ("file_mb", "deadline", "allowed", "cost_weight", "min_<attribute>")
    cells = read_table(path, ("id", "instructions", "arrival"), more)
    column = partial(numbers, cells)
    ini, fsize, arrival = column("instructions", np.nan), column("file_mb", 0.0), column("arrival", np.nan)
    deadline = arrival + column("allowed", np.inf) if "allowed" in cells else column("deadline", np.inf)
    demands = {name.removeprefix("min_"): column(name, -np.inf) for name in cells if name.startswith("min_")}
    return Jobs(cells["id"], ini, fsize, arrival, deadline, demands, column("cost_weight", np.nan))


def read_map_jobs(path: str | Path, jobs: int) -> tuple[np.ndarray, np.ndarray]:
    """Read deadlines and file sizes (MB), both (jobs,), from CSV: columns `deadline` (empty: none) and `file_mb`.

    The file has one row per job of the matrix, in the matrix's order; other columns are ignored. An InputError names
    the line of a value that is not a number, or a wrong number of rows.
    """
    cells = read_table(path, ("deadline",), ("file_mb",))
    deadline, file_mb = numbers(cells, "deadline", np.inf), numbers(cells, "file_mb", 0.0)
    if len(deadline) != jobs:
        what = f"{len(deadline)} rows, the matrix has {jobs} jobs"
        raise input_error(str(path), what, hint="one row for each job, in the jobs' order")
    for name, right in (("deadline", deadline >= 0.0), ("file_mb", (file_mb >= 0.0) & np.isfinite(file_mb))):
        for row in np.flatnonzero(~right).tolist():
            value, accepted = cells[name][row], "a number of at least 0, or an empty cell"
            raise input_error(str(path), f"{name} of job {row}", line=row + 2, value=value, accepted=accepted)
    return deadline, file_mb


def jobs_from_log(trace: Trace, *, reference_speed: float = 1000.0, slack: float = 2.0) -> Jobs:
    """Convert jobs of a batch log: instructions = run time x reference speed, deadline = submit + slack x limit.

    With these instructions, a job takes its recorded run time on a resource of the reference speed (MI/s). The job
    requests an attribute `procs` of at least its number of processors. If the time limit is missing, the run time
    replaces it. The converted jobs have no input files. Jobs that never ran are left out.
    """
    ran = np.isfinite(trace.run_time) & (trace.run_time > 0)
    taken = trace.take(ran)
    limit = np.where(taken.req_time > 0, taken.req_time, taken.run_time)
    ids = [str(name) for name in taken.job_id.tolist()]
    deadline = taken.submit_time + slack * np.maximum(limit, taken.run_time)
    ini = taken.run_time * reference_speed
    return Jobs(ids, ini, np.zeros(len(taken)), taken.submit_time, deadline, {"procs": taken.procs()})


RANGES = {
    "braun": {"task": {"hi": 3000.0, "lo": 100.0}, "machine": {"hi": 1000.0, "lo": 10.0}},
    "ali": {"task": {"hi": 100_000.0, "lo": 10.0}, "machine": {"hi": 100.0, "lo": 10.0}},
}


def draw_times(
    rng: np.random.Generator,
    jobs: int,
    resources: int,
    kind: str = "c_hihi",
    *,
    ranges: str = "braun",
    whole: bool = False,
) -> np.ndarray:
    """Draw expected times by the range-based method of Braun et al. 2001.

    >>> draw_times(np.random.default_rng(1), 2, 3, "c_lolo", whole=True)
    array([[118., 196., 492.],
           [445., 457., 803.]])
    """
    # `kind` names the consistency and the heterogeneity of tasks and machines as the public benchmarks do (`c_hihi`,
    # `s_lohi`). Each row is a base value, uniform on [1, task), times multipliers that are uniform on [1, machine).
    # Consistent (`c`): every row is ascending, so one resource is fastest for all jobs; semiconsistent (`s`): only the
    # even columns are ascending; inconsistent (`i`): as drawn. The upper ends (task, machine) are 3000, 100 and 1000,
    # 10 (Braun et al. 2001), or 100,000, 10 and 100, 10 (Ali et al. 2000).
    #
    # Braun et al. 2001, section 3.1. The call takes O(jobs * resources * log resources) time.
    #
    # T. D. Braun et al., A comparison of eleven static heuristics for mapping a class of independent tasks onto
    # heterogeneous distributed computing systems, J. Parallel Distrib. Comput. 61 (2001), doi:10.1006/jpdc.2000.1714.
    # S. Ali et al., Task execution time modeling for heterogeneous computing systems, HCW 2000,
    # doi:10.1109/HCW.2000.843743.
    consistency, _, levels = kind.partition("_")
    task, machine = levels[:2], levels[2:]
    if consistency not in ("c", "i", "s") or ranges not in RANGES or {task, machine} - {"hi", "lo"} or len(levels) != 4:
        forms = f"c, i or s, _, hi or lo twice, as in s_lohi; {', '.join(RANGES)}"
        raise UsageError(f"no matrix {kind!r} of ranges {ranges!r} (accepted: {forms})")
    if jobs < 1 or resources < 1:
        raise UsageError(f"an empty grid: {jobs} x {resources} (accepted: at least one job and one resource)")
    base = rng.uniform(1.0, RANGES[ranges]["task"][task], jobs)
    times = base[:, None] * rng.uniform(1.0, RANGES[ranges]["machine"][machine], (jobs, resources))
    if consistency == "c":
        times.sort(axis=1)
    elif consistency == "s":
        times[:, ::2] = np.sort(times[:, ::2], axis=1)
    return np.floor(times) if whole else times
