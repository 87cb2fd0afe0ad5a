# SPDX-License-Identifier: Apache-2.0
"""Several logs as one, and records that describe the same job counted once."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..errors import InputError, worded
from ..formats.times import UNFINISHED
from ..table import LogInfo, Nominal, Trace, Values
from ..table.columns import INSTANTS
from ..table.joined import joined
from .parquet import summed_notes

DATED = 1e8
"""A clock that has passed this second counts from 1970: no log spans the three years of a clock that began at 0."""
IDENTICAL = "identical to another record"
OUTDATED = "an earlier state of a job that another record has"
SHARED_NUMBERS = 0.01
MOST_ALIKE = 64


def merged(traces: Sequence[Trace]) -> Trace:
    """The jobs of several logs on one clock, in log order; repeated records stay (see `without_repeats`).

    Differences that do not change a job are noted: formats, time zones, sizes of the machine, meanings of a header's
    numbers. Raises InputError if only some of the logs know the dates of their jobs. O(jobs).

    >>> from batchcast.trace.merge import merged
    >>> a = Trace.from_arrays({"submit_time": [0.0]}, LogInfo(source="a.swf", unix_start=2e9, max_procs=8.0))
    >>> b = Trace.from_arrays({"submit_time": [5.0]}, LogInfo(source="b.swf", unix_start=1e9, max_procs=8.0))
    >>> both = merged([a, b])
    >>> both.submit_time.tolist(), both.info.unix_start, both.info.source
    ([5.0, 1000000000.0], 1000000000.0, 'a.swf, b.swf')
    """
    if len(traces) == 1:
        return traces[0]
    dated = [_is_dated(trace) for trace in traces]
    if any(dated) and not all(dated):
        known, unknown = (traces[dated.index(which)].info.source for which in (True, False))
        raise InputError(
            f"{unknown} does not say when its clock began, {known} does: their jobs cannot be put in one order",
            hint="a UnixStartTime line in the header of the first, or each log by itself",
        )
    notes = [] if any(dated) else ["no log says when its clock began (UnixStartTime): their clocks are taken as one"]
    whole = len({trace.info.memory_per for trace in traces}) > 1
    start = min(trace.info.unix_start for trace in traces)
    info = _one_info([trace.info for trace in traces], start, notes)
    pieces = [_on_clock(_of_whole_jobs(trace) if whole else trace, start) for trace in traces]
    return joined(pieces, replace(info, memory_per="job") if whole else info)


def _is_dated(trace: Trace) -> bool:
    """Whether the log's clock counts from a known date."""
    return trace.info.unix_start > 0 or bool(len(trace) and trace.submit_time[-1] > DATED)


def _on_clock(trace: Trace, start: float) -> Trace:
    """The trace on a clock that reads 0 at the epoch second `start`."""
    shift = trace.info.unix_start - start
    columns = {name: trace.column(name) for name in trace.names}
    moved: dict[str, Values] = {
        name: values + shift if name in INSTANTS and not isinstance(values, Nominal) else values
        for name, values in columns.items()
    }
    return Trace(moved, trace.info, is_sorted=True)


def _of_whole_jobs(trace: Trace) -> Trace:
    """The trace with its memory columns as amounts of whole jobs."""
    names = [name for name in ("req_mem_kib", "used_mem_kib") if name in trace.names]
    if trace.info.memory_per == "job" or not names:
        return trace
    rule = {"req_mem_kib": "req", "used_mem_kib": "alloc"}
    return trace.with_columns({name: trace.number(name) * trace.procs(rule[name]) for name in names})


def _one_info(infos: Sequence[LogInfo], start: float, notes: Sequence[str]) -> LogInfo:
    """Where the jobs of several logs came from, with a note for each difference between the logs."""
    said = list(notes)
    formats = list(dict.fromkeys(info.format for info in infos))
    if len(formats) > 1:
        said.append(f"the logs have different formats ({', '.join(formats)}): a field that only some know is unknown in"
                    " the others, and names of users are compared as written")  # fmt: skip
    if len({info.timezone for info in infos}) > 1:
        zones = ", ".join(f"{info.source}: {info.timezone}" for info in infos)
        said.append(worded(f"the logs have different time zones ({zones}): dates are those of {infos[0].timezone};"
                           " --timezone NAME says another"))  # fmt: skip
    sizes = {info.max_procs for info in infos if info.max_procs > 0}
    if len(sizes) > 1:
        each = ", ".join(f"{info.source}: {info.max_procs:,.0f}" for info in infos if info.max_procs > 0)
        said.append(worded(f"the logs name machines of different sizes ({each} processors): the largest is taken;"
                           " --procs-total N says another"))  # fmt: skip
    largest = max(infos, key=lambda info: info.max_procs if info.max_procs > 0 else 0.0)
    names = {column: dict(words) for column, words in infos[0].names.items()}
    for info in infos[1:]:
        for column, words in info.names.items():
            ours = names.setdefault(column, {})
            unlike = [number for number, word in words.items() if ours.get(number, word) != word]
            if unlike:
                said.append(f"{column} {unlike[0]} is {ours[unlike[0]]!r} in one log and {words[unlike[0]]!r} in"
                            f" {info.source}: the numbers may not mean the same")  # fmt: skip
            names[column] = {**words, **ours}
    names_of = [info.source for info in infos]
    dropped: Counter[str] = Counter()
    for info in infos:
        dropped.update(info.dropped)
    return replace(
        infos[0],
        source=", ".join(names_of[:3]) + (f" and {len(names_of) - 3} more logs" if len(names_of) > 3 else ""),
        format=", ".join(formats),
        sha256=hashlib.sha256("\n".join(info.sha256 for info in infos).encode()).hexdigest(),
        unix_start=start,
        max_procs=largest.max_procs,
        max_procs_source=largest.max_procs_source,
        max_nodes=max((info.max_nodes for info in infos if info.max_nodes > 0), default=float("nan")),
        header={key: value for info in reversed(infos) for key, value in info.header.items()},
        names=names,
        dropped=dict(dropped),
        notes=tuple(summed_notes([note for info in infos for note in info.notes]) + said),
    )


def without_repeats(trace: Trace) -> Trace:
    """The trace with one record of each job that is recorded several times; what was left out is counted and noted.

    Records describe the same job if they have the same cluster, job number and submission time, and

    - all other values that both records know are equal: the first record stays, with what only the other one knows; or
    - one of them says that the job had not finished (pending, running, ...) and their start times do not contradict
      each other: the finished record stays, of two unfinished records the one that knows the start, else the later.

    All other records stay: the runs of a requeued job, a number that was used again. If more than 1 % of the records
    (and more than 20) differ from another record with the same number and submission time, then the number does not
    name one job, as in tables that give an array's number to each of its tasks, and nothing is left out. O(jobs).

    >>> columns = {"job_id": [7, 7, 8], "submit_time": [0.0, 0.0, 5.0], "run_time": [None, 60.0, 9.0],
    ...            "status": ["running", "completed", "completed"]}
    >>> once = without_repeats(Trace.from_arrays(columns))
    >>> once.job_id.tolist(), once.run_time.tolist(), dict(once.info.dropped)
    ([7, 8], [60.0, 9.0], {'an earlier state of a job that another record has': 1})
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
    info = trace.info
    for rule, count in ((IDENTICAL, int((gone & ~outdated).sum())), (OUTDATED, int(outdated.sum()))):
        info = info.with_dropped(rule, count) if count else info
    filled = trace.with_columns(pairs.filled(gone & ~outdated), info) if gone.any() else trace
    return _with_count(filled.take(~gone) if gone.any() else filled)


class _Pairs:
    """Compares the records that share a number and a submission time, which stand side by side in a trace."""

    def __init__(self, trace: Trace, group: np.ndarray) -> None:
        self._trace, self._group = trace, group
        status = trace.nominal("status")
        words = np.array([word in UNFINISHED for word in status.categories] + [False], bool)
        self._unfinished = words[status.codes]
        self._started = ~np.isnan(trace.wait_time)
        self._stands_for: list[tuple[np.ndarray, np.ndarray]] = []
        self.unlike = 0

    def compare(self) -> tuple[np.ndarray, np.ndarray]:
        """Which records are left out, and which of those because they are outdated, both (n,)."""
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
            old = np.concatenate([first[first_goes], second[second_goes]])
            outdated[old] = True
            gone[old] = True
            gone[second[equal]] = True
            self._stands_for.append((first[equal], second[equal]))
        return gone, outdated

    def filled(self, gone: np.ndarray) -> dict[str, Values]:
        """Columns in which a record that stays has what only its identical one knows."""
        changed: dict[str, Values] = {}
        for name in self._trace.names:
            values = self._trace.column(name)
            if name in ("job_id", "submit_time"):
                continue
            plain = (values.codes if isinstance(values, Nominal) else values).copy()
            if plain.dtype.kind not in "fi":
                continue
            for first, second in reversed(self._stands_for):
                empty = _unknown(plain[first]) & ~_unknown(plain[second]) & gone[second]
                plain[first[empty]] = plain[second[empty]]
            changed[name] = Nominal(plain, values.categories) if isinstance(values, Nominal) else plain
        return changed

    def _agree(self, first: np.ndarray, second: np.ndarray, names: Sequence[str]) -> np.ndarray:
        """Whether two records have equal values in every one of these columns that both know."""
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
    """Where a number is NaN or a code is that of null."""
    return np.asarray(np.isnan(values) if values.dtype.kind == "f" else values < 0)


def _with_count(trace: Trace) -> Trace:
    """The trace with a note of the records that still share a number with another one of the same cluster."""
    count = int((~last_of_each_number(trace)).sum())
    note = (f"{count} records repeat a job number that an earlier one has (a job that was requeued, a number used"
            " again): all are kept; --clean duplicates keeps the last record of each number")  # fmt: skip
    return _with_new_note(trace, note) if count else trace


def _with_new_note(trace: Trace, note: str) -> Trace:
    """The trace with one more note, unless it stood in the file that the trace was read from."""
    text = worded(note)
    return trace if text in trace.info.notes else trace.with_info(trace.info.with_note(text))


def last_of_each_number(trace: Trace) -> np.ndarray:
    """Which records are the last, in log order, of their job number in their cluster, (n,) booleans.

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
    """The trace; with jobs of several clusters, a note names the clusters and their job counts."""
    cluster = trace.nominal("cluster")
    counts = np.bincount(cluster.codes[cluster.codes >= 0], minlength=len(cluster.categories))
    jobs = sorted((-int(count), str(name)) for name, count in zip(cluster.categories, counts) if count)
    if len(jobs) < 2:
        return trace
    each = ", ".join(f"{name} {-count:,}" for count, name in jobs[:10]) + (", ..." if len(jobs) > 10 else "")
    note = f"the log has jobs of {len(jobs)} clusters ({each}), taken as one machine: --cluster NAME chooses one"
    return _with_new_note(trace, note)
