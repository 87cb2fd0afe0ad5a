"""Matrices of expected times drawn as the public yardsticks were: ranges for jobs and machines, three consistencies."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ..errors import UsageError

Consistency = Literal["c", "i", "s"]
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
    """Expected times by the range-based recipe of Braun et al. 2001.

    Parameters
    ----------
    rng : numpy.random.Generator
        Where the draws come from.
    jobs, resources : int
        Rows and columns, at least 1.
    kind : str
        Consistency (`c`, `i`, `s`), task and machine heterogeneity, as in the public names: `c_hihi`, `s_lohi`, ...
    ranges : {"braun", "ali"}
        Upper ends of the uniform draws: 3000/100 and 1000/10 (Braun et al. 2001), or 100,000/10 and 100/10 (Ali et al.
        2000).
    whole : bool
        Round down to whole numbers: many equal times.

    Returns
    -------
    numpy.ndarray
        (jobs, resources) times: each row a base uniform on [1, task) times uniform [1, machine) multipliers. Consistent
        (`c`): every row ascending, so one resource is fastest for all; semiconsistent (`s`): the even columns are;
        inconsistent (`i`): as drawn.

    Raises
    ------
    UsageError
        For another kind, other ranges, or an empty grid.

    Notes
    -----
    Braun et al. 2001, section 3.1. O(jobs resources log resources).

    References
    ----------
    T. D. Braun et al., A comparison of eleven static heuristics for mapping a class of independent tasks onto
    heterogeneous distributed computing systems, J. Parallel Distrib. Comput. 61 (2001), doi:10.1006/jpdc.2000.1714.
    S. Ali et al., Task execution time modeling for heterogeneous computing systems, HCW 2000,
    doi:10.1109/HCW.2000.843743.

    Examples
    --------
    >>> draw_times(np.random.default_rng(1), 2, 3, "c_lolo", whole=True)
    array([[118., 196., 492.],
           [445., 457., 803.]])
    """
    consistency, _, levels = kind.partition("_")
    task, machine = levels[:2], levels[2:]
    if consistency not in ("c", "i", "s") or ranges not in RANGES or {task, machine} - {"hi", "lo"} or len(levels) != 4:
        raise UsageError(
            f"no matrix {kind!r} of ranges {ranges!r} (accepted: c, i or s, _, hi or lo twice, as in s_lohi; "
            f"{', '.join(RANGES)})"
        )
    if jobs < 1 or resources < 1:
        raise UsageError(f"an empty grid: {jobs} x {resources} (accepted: at least one job and one resource)")
    base = rng.uniform(1.0, RANGES[ranges]["task"][task], jobs)
    times = base[:, None] * rng.uniform(1.0, RANGES[ranges]["machine"][machine], (jobs, resources))
    if consistency == "c":
        times.sort(axis=1)
    elif consistency == "s":
        times[:, ::2] = np.sort(times[:, ::2], axis=1)
    return np.floor(times) if whole else times
