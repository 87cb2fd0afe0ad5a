# SPDX-License-Identifier: Apache-2.0
"""Find records that describe the same job, and note job numbers that several clusters share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import worded
from ..table import Nominal, Trace, Values

IDENTICAL = "identical to another record"
OUTDATED = "an earlier state of a job that has a later record"
SHARED_NUMBERS = 0.01
"""If a larger share of the records differs from another record with the same number and submit time, a job number does
not identify one job."""
MOST_ALIKE = 64
"""Largest number of records with the same number and submit time that are compared."""


def without_repeats(trace: Trace) -> Trace:
    """Keep one record of each job that is recorded several times. Dropped records are counted and noted.

    Parameters
    ----------
    trace
        The log.

    Returns
    -------
    Trace

    Notes
    -----
    Records describe the same job if they have the same cluster, job number and submit time, and one of two conditions
    is met:

    - All other values that both records have are equal. The first record stays, and receives the values that only the
      second record has. Or
    - one of them was written before the job had finished (pending, running, ...), and their start times do not
      contradict each other. The finished record stays; of two unfinished records, the record with a start time stays;
      if no record or every record has one, the later record stays.

    Other records stay: the runs of a requeued job, or a reused number. If more than 1 % of the records (and more than
    20) differ from another record with the same job number and submit time, the number does not identify one job, as in
    tables that give the number of an array to each of its tasks. If the job number does not identify one job, no record
    is dropped. O(jobs).

    Examples
    --------
    >>> columns = {"job_id": [7, 7, 8], "submit_time": [0.0, 0.0, 5.0], "run_time": [None, 60.0, 9.0],
    ...            "status": ["running", "completed", "completed"]}
    >>> once = without_repeats(Trace.from_arrays(columns))
    >>> once.job_id.tolist(), once.run_time.tolist(), dict(once.info.dropped)
    ([7, 8], [60.0, 9.0], {'an earlier state of a job that has a later record': 1})
    """
    submit, ids = trace.submit_time, trace.job_id
    begins = np.ones(len(trace), bool)
    begins[1:] = (submit[1:] != submit[:-1]) | (ids[1:] != ids[:-1])
    if begins.all():
        return _with_count(trace)
    pairs = _Pairs(trace, np.cumsum(begins))
    gone, outdated = pairs.compare()
    if pairs.unlike > max(SHARED_NUMBERS * len(trace), 20):
        return _with_count(trace)
    info, identical = trace.info, gone & ~outdated
    for rule, count in ((IDENTICAL, int(identical.sum())), (OUTDATED, int(outdated.sum()))):
        info = info.with_dropped(rule, count) if count else info
    return _with_count(trace.with_columns(pairs.filled(identical), info).take(~gone) if gone.any() else trace)


class _Pairs:
    """Compares the records with the same number and submit time, which are next to each other in a trace."""

    def __init__(self, trace: Trace, group: np.ndarray) -> None:
        from ..formats.times import UNFINISHED  # imported late, because few logs have repeated records

        self._trace, self._group = trace, group
        self._unfinished = trace.nominal("status").is_any(UNFINISHED)
        self._started = ~np.isnan(trace.wait_time)
        self._stands_for: list[tuple[np.ndarray, np.ndarray]] = []
        self.unlike = 0

    def compare(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns which records to drop, and which of them are outdated, each of shape (n,)."""
        gone, outdated = (np.zeros(len(self._group), bool) for _ in range(2))
        for lag in range(1, MOST_ALIKE):
            first = np.flatnonzero(self._group[:-lag] == self._group[lag:])
            if not len(first):
                break
            first = first[~gone[first] & ~gone[first + lag]]
            second = first + lag
            same_run = self._agree(first, second, ("cluster", "wait_time"))
            early, late = self._unfinished[first], self._unfinished[second]
            finished = ~early & ~late
            equal = finished & self._agree(first, second, self._trace.names)
            self.unlike += int((finished & ~equal).sum())
            second_goes = same_run & late & (~early | (self._started[first] & ~self._started[second]))
            first_goes = same_run & early & ~second_goes
            outdated[first[first_goes]] = outdated[second[second_goes]] = True
            gone |= outdated
            gone[second[equal]] = True
            self._stands_for.append((first[equal], second[equal]))
        return gone, outdated

    def filled(self, gone: np.ndarray) -> dict[str, Values]:
        """Returns the columns in which a kept record receives values that only the dropped identical record has."""
        changed: dict[str, Values] = {}
        for name in set(self._trace.names) - {"job_id", "submit_time"}:
            values = self._trace.column(name)
            plain = (values.codes if isinstance(values, Nominal) else values).copy()
            if plain.dtype.kind not in "fi":
                continue
            for first, second in reversed(self._stands_for):
                empty = _unknown(plain[first]) & ~_unknown(plain[second]) & gone[second]
                plain[first[empty]] = plain[second[empty]]
            changed[name] = Nominal(plain, values.categories) if isinstance(values, Nominal) else plain
        return changed

    def _agree(self, first: np.ndarray, second: np.ndarray, names: Sequence[str]) -> np.ndarray:
        """Whether the records of each pair have equal values in the given columns; unknown values are not compared."""
        agree = np.ones(len(first), bool)
        for name in names:
            if name not in self._trace.names or name in ("job_id", "submit_time"):
                continue
            values = self._trace.column(name)
            plain = values.codes if isinstance(values, Nominal) else values
            a, b = plain[first], plain[second]
            agree &= (a == b) | (_unknown(a) | _unknown(b) if plain.dtype.kind in "fi" else False)
        return agree


def _unknown(values: np.ndarray) -> np.ndarray:
    """Whether each value is NaN, or the code for null."""
    return np.asarray(np.isnan(values) if values.dtype.kind == "f" else values < 0)


def _with_count(trace: Trace) -> Trace:
    """Returns the log with a note about records that share a job number within a cluster."""
    count = int((~last_of_each_number(trace)).sum())
    note = (f"{count} records repeat the job number of an earlier record (a requeued job, or a reused number):"
            " all are kept; --clean duplicates keeps the last record of each number")  # fmt: skip
    return _with_new_note(trace, note) if count else trace


def _with_new_note(trace: Trace, note: str) -> Trace:
    """Returns the log with one more note, unless the log has this note already."""
    text = worded(note)
    return trace if text in trace.info.notes else trace.with_info(trace.info.with_note(text))


def last_of_each_number(trace: Trace) -> np.ndarray:
    """Find the last record of each job number in its cluster.

    Parameters
    ----------
    trace
        The log.

    Returns
    -------
    ndarray
        Whether each record is the last with its number, booleans in log order, shape (n,).

    Examples
    --------
    >>> log = {"job_id": [1, 1, 1], "submit_time": [0.0, 1.0, 2.0], "cluster": ["alpha", "beta", "alpha"]}
    >>> last_of_each_number(Trace.from_arrays(log)).tolist()
    [False, True, True]
    """
    ids = trace.job_id
    cluster = trace.nominal("cluster").codes
    several = cluster.size and bool((cluster != cluster[0]).any())
    if len(ids) < 2 or (not several and bool((ids[1:] > ids[:-1]).all())):
        return np.ones(len(ids), bool)
    _, number = np.unique(ids, return_inverse=True)
    key = number * (int(cluster.max()) + 2) + cluster + 1 if several else number
    _, last = np.unique(key[::-1], return_index=True)
    stays = np.zeros(len(ids), bool)
    stays[len(ids) - 1 - last] = True
    return stays


def note_clusters(trace: Trace) -> Trace:
    """Add a note with the names and job counts of the clusters, if the log has jobs of several."""
    cluster = trace.nominal("cluster")
    counts = np.bincount(cluster.codes[cluster.codes >= 0], minlength=len(cluster.categories))
    jobs = sorted((-int(count), str(name)) for name, count in zip(cluster.categories, counts) if count)
    if len(jobs) < 2:
        return trace
    each = ", ".join(f"{name} {-count:,}" for count, name in jobs[:10]) + (", ..." if len(jobs) > 10 else "")
    note = f"the log has jobs of {len(jobs)} clusters ({each}), read as one machine: --cluster NAME chooses one"
    return _with_new_note(trace, note)
