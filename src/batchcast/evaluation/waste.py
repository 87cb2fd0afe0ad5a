# SPDX-License-Identifier: Apache-2.0
"""Unused core-hours by user, account, queue and application: used, requested and unused core-hours, and core-hours of
failed and killed runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..job import SWF_NUMBERS
from ..table import Trace
from .differences import shown_names

GROUPINGS = {
    "user": "user_id", "account": "account", "group": "group_id", "queue": "queue_id", "partition": "partition_id",
    "application": "app_id",
}  # fmt: skip
WHOLE_LOG = "whole"
MOST = 10
TIMEOUT = "timeout"
FAILED = frozenset(word for word, number in SWF_NUMBERS.items() if number in (0, 4, 5)) - {TIMEOUT}
"""Statuses of jobs whose work is lost. A checkpointed piece of a job that continues is not among them."""
SUMS = ("jobs", "jobs_without_limit", "used_core_h", "asked_core_h", "unused_core_h", "failed_core_h",
        "at_limit_core_h")  # fmt: skip


def waste_rows(
    trace: Trace, mask: np.ndarray | None = None, *, procs: str = "req", most: int = MOST
) -> list[dict[str, Any]]:
    """Return flat rows: the whole log first, then for each grouping the `most` groups with the most unused core-hours,
    and one row for all other groups.

    >>> log = Trace.from_arrays({"submit_time": [0.0, 1.0, 2.0, 3.0], "run_time": [3600.0, 3600.0, 0.0, 7200.0],
    ...     "req_time": [7200.0, 3600.0, 3600.0, None], "req_procs": [2, 1, 1, 1],
    ...     "user_id": ["ada", "bo", "bo", "ada"]})
    >>> [(row["by"], row["group"], row["used_core_h"], row["unused_core_h"]) for row in waste_rows(log)]
    [('whole', None, 5.0, 3.0), ('user', 'ada', 4.0, 2.0), ('user', 'bo', 1.0, 1.0)]
    """
    # `group` is None for the `groups` other groups together, or, if `groups` is 0, for jobs whose group is unknown. A
    # grouping is omitted if it has a single group, or if nearly each job is its own group.
    inside = np.ones(len(trace), bool) if mask is None else np.asarray(mask, bool)
    inside = inside & np.isfinite(trace.run_time)
    values = _per_job(trace, inside, procs)
    has_status = bool(trace.nominal("status").is_known().any())
    whole = values.sum(axis=1)
    unused = float(whole[SUMS.index("unused_core_h")])
    rows = [_row(WHOLE_LOG, None, 1, whole, unused, has_status)]
    for by, column in GROUPINGS.items():
        if by == "group" and (trace.info.private or any(row["by"] == "account" for row in rows)):
            continue  # a group often consists of one person and has that person's name
        codes = trace.nominal(column).codes[inside]
        sums = np.stack([np.bincount(codes + 1, weights=one, minlength=2) for one in values])
        unknown, sums = sums[:, 0], sums[:, 1:]
        there = int((sums[0] > 0).sum())
        if not 2 <= there <= sums[0].sum() / 2:
            continue
        names = shown_names(trace, column)
        order = np.lexsort((-sums[SUMS.index("used_core_h")], -sums[SUMS.index("unused_core_h")], sums[0] == 0))
        first, rest = order[: min(most, there)], order[most:there]
        rows += [_row(by, names[code], 1, sums[:, code], unused, has_status) for code in first.tolist()]
        if len(rest):
            rows.append(_row(by, None, len(rest), sums[:, rest].sum(axis=1), unused, has_status))
        if unknown[0]:
            rows.append(_row(by, None, 0, unknown, unused, has_status))
    return rows


def _per_job(trace: Trace, inside: np.ndarray, procs: str) -> np.ndarray:
    """Return what each job inside adds to every sum of `SUMS`: (sums, jobs)."""
    # In core-hours: `used_core_h` is processors times run time, `asked_core_h` processors times limit for jobs with a
    # limit, and `unused_core_h` processors times the unused part of the limit. A run that did not complete and was at
    # least as long as its limit counts as ended by its limit (`at_limit_core_h`), not as failed (`failed_core_h`). A
    # job of unknown size counts as one processor.
    run, limit = trace.run_time[inside], trace.req_time[inside]
    size = np.nan_to_num(trace.procs(procs)[inside], nan=1.0) / 3600.0
    limited = (limit > 0) & np.isfinite(limit)
    asked = np.where(limited, limit, 0.0)
    used = size * run
    status = trace.nominal("status")
    codes, words = status.codes[inside], [*status.categories, ""]  # the code of an unknown status is -1
    failed, timeout = (np.array([word in ends for word in words])[codes] for ends in (FAILED, {TIMEOUT}))
    at_limit = timeout | (limited & (run >= asked) & (failed | (codes < 0)))
    unused = np.where(limited, size * np.maximum(asked - run, 0.0), 0.0)
    lost = [np.where(failed & ~at_limit, used, 0.0), np.where(at_limit, used, 0.0)]
    return np.stack([np.ones(len(run)), ~limited, used, size * asked, unused, *lost])


def _row(by: str, group: str | None, groups: int, sums: np.ndarray, unused: float, has_status: bool) -> dict[str, Any]:
    one = dict(zip(SUMS, sums.tolist()))
    counts = {name: int(one[name]) for name in SUMS[:2]}
    failed = {} if has_status else {"failed_core_h": None}
    share = one["unused_core_h"] / unused if unused > 0 else float("nan")
    return {"by": by, "group": group, "groups": groups, **one, **counts, **failed, "unused_share": share}
