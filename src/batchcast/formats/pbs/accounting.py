# SPDX-License-Identifier: Apache-2.0
"""Read accounting logs of PBS Pro, OpenPBS and Torque. Each line is a record: `date;type;job;key=value ...`."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from ...errors import input_error
from ...table import LogInfo, Trace
from ...units import parse_duration
from ..chunks import Codes, LogColumns, Problems, as_ids, in_house_order, unix_text, whole_lines
from ..memo import Memo, either, positive
from .qstat import MOST_CACHED, ending, number, plain_id, requested, size_kib

_RECORD = re.compile(r"^\d\d/\d\d/\d{4} \d\d:\d\d:\d\d(?:\.\d+)?;([A-Za-z]);([^;\n]*)(?:;([^\n]*))?$", re.MULTILINE)
_PAIR = re.compile(r"""([A-Za-z_][\w.-]*)=("[^"]*"|'[^']*'|.*?)(?=\s+[A-Za-z_][\w.-]*=|\s*$)""", re.DOTALL)
_QUOTED_BLANK = re.compile(r"""=(?:"(?![^" ]*")|'(?![^' ]*'))""")
"""The beginning of a quoted value that contains a blank, or whose quote is not closed."""
_NCPUS = re.compile(r"\bncpus=(\d{1,9})")
_STAMPS = ("ctime", "qtime", "etime", "start", "end")
_LENGTHS = ("Resource_List.walltime", "resources_used.walltime", "resources_used.cput")
_TEXTS = (
    *_STAMPS, *_LENGTHS, "Exit_status", "user", "group", "queue", "jobname", "Resource_List.ncpus",
    "Resource_List.select", "Resource_List.nodes", "Resource_List.nodect", "Resource_List.ngpus", "Resource_List.mem",
    "Resource_List.place", "Resource_List.depend", "depend",
    "Resource_List.pmem", "resources_used.ncpus", "resources_used.mem", "total_execution_slots", "unique_node_count",
    "exec_vnode", "exec_host", "run_count", "start_count", "owner", "account", "project",
)  # fmt: skip
_NAMES = {"user_id": "user", "group_id": "group", "queue_id": "queue", "job_name": "jobname"}
_BATCH = 1 << 14
_SLACK = 60.0


def looks_like(head: bytes) -> bool:
    """Whether one of the first lines is an accounting record.

    >>> looks_like(b"04/01/2024 00:00:01;E;7.srv;user=ada ctime=1"), looks_like(b"1 0 5")
    (True, False)
    """
    return _RECORD.search(head.decode("utf-8", "replace")) is not None


def read(blocks: Iterable[bytes], source: str = "(memory)", *, strict: bool = False) -> Trace:
    """Read an accounting log: one job per E record (a job ended), with times in epoch seconds.

    >>> line = "04/01/2024 00:00:01;E;7[2].srv;user=ada ctime=10 start=15 end=25 Resource_List.select=2:ncpus=4"
    >>> trace = read([line.encode()])
    >>> trace.job_id.tolist(), trace.wait_time.tolist(), trace.run_time.tolist(), trace.procs().tolist()
    (['7_2'], [5.0], [10.0], [8.0])
    """
    # Submit time is ctime, else qtime. Run time is end - start, the time for which processors were allocated; a start
    # or end of 0 is computed from the other time and resources_used.walltime. The functions `qstat.requested` and
    # `allocated` count requested and allocated processors. Memory is for the whole job (`pmem` times processors if
    # there is no `mem`).
    #
    # The subjobs of an array are jobs, but the parent of the array is not. If a job ran several times, the trace has
    # its last run; `restarts` (number of restarts) is read from run_count, start_count or the job's R records. Records
    # of other types are counted. Jobs that were deleted before they ran (D or A, but no E record) are only counted,
    # because the log does not describe them.
    #
    # `server/accounting.c` of OpenPBS and Torque; Torque Administrator's Guide, "Accounting records"; PBS Professional
    # Reference Guide, "Accounting log".
    log = _Log(Problems(source, strict))
    read = 0
    for lines in whole_lines(unix_text(blocks)):
        text = lines.decode("utf-8", "replace").removesuffix("\n")
        log.take(text, read)
        read += text.count("\n") + 1
    log.flush()
    return log.trace(source)


class _Log:
    """Sorts records by type and collects the columns of jobs that ended, some ten thousand at a time."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._ends: list[tuple[int, str, str]] = []
        self._other_records, self._reruns = Counter[str](), Counter[str]()
        self._gone, self._ended = set[str](), set[str]()
        words = {name: Codes(lambda text: text.strip("\"'") or None) for name in (*_NAMES, "account", "dependency")}
        self._columns = LogColumns(words | {"status": Codes(lambda text: text)})
        # A PBS time is a number of seconds, or H:M:S.
        self._times = Memo(lambda text: float(text) if number(text) >= 0 else parse_duration(text))
        self._parents = self._late = 0

    def take(self, text: str, before: int) -> None:
        """Read whole lines; `before` is the number of lines of the text before these lines."""
        records = _RECORD.findall(text)
        if len(records) == text.count("\n") + 1:
            for line, (kind, job, message) in enumerate(records, before + 1):
                self._deal(line, kind, job, message)
        else:
            for line, one in enumerate(text.split("\n"), before + 1):
                if match := _RECORD.fullmatch(one):
                    self._deal(line, match[1], match[2], match[3] or "")
                elif one.strip():
                    self._problems.drop(line, "not an accounting record", one)
        if len(self._ends) >= _BATCH:
            self.flush()

    def _deal(self, line: int, kind: str, job: str, message: str) -> None:
        """Store an E record (a job ended), or count a record of another type."""
        if kind == "E":
            self._ends.append((line, job, message.strip()))
            return
        self._other_records[kind] += 1
        if kind == "R":
            self._reruns[job] += 1
        elif kind in "DA":
            self._gone.add(job)

    def flush(self) -> None:
        """Convert the stored E records (ended jobs) to columns."""
        ends, self._ends = self._ends, []
        lines, jobs = [line for line, _, _ in ends], [job for _, job, _ in ends]
        texts = columns_of([message for _, _, message in ends], _TEXTS)
        texts["reruns"] = [str(self._reruns[job] or "") for job in jobs]
        names = list(map(plain_id, jobs))
        self._ended.update(jobs)
        good = []
        for k, (name, ctime, qtime) in enumerate(zip(names, texts["ctime"], texts["qtime"])):
            if name is None:
                self._parents += 1
            elif name and (number(ctime) > 0 or number(qtime) > 0):
                good.append(k)
            else:
                self._problems.drop(lines[k], "no job id or no ctime and qtime", jobs[k])
        if not good:
            return
        if len(good) < len(lines):
            texts = {key: [values[k] for k in good] for key, values in texts.items()}
            lines, names = [lines[k] for k in good], [names[k] for k in good]
        texts["account"] = [
            # Every job without a project has PBS's default project.
            account or ("" if project.strip("\"'") == "_pbs_project_default" else project)
            for account, project in zip(texts["account"], texts["project"])
        ]
        waits = zip(texts["depend"], texts["Resource_List.depend"])
        texts["dependency"] = [_depends(first or second) for first, second in waits]
        # `place` has "excl" if the nodes are not shared.
        shares = [float("excl" in place) if place else math.nan for place in texts["Resource_List.place"]]
        measured = {"exclusive": np.array(shares), **self._measure(lines, texts)}
        codes = {name: words.encode(texts[_NAMES.get(name, name)]) for name, words in self._columns.words.items()}
        self._columns.add(as_ids([name or "" for name in names]), measured | codes)

    def _measure(self, lines: Sequence[int], texts: dict[str, list[str]]) -> dict[str, np.ndarray]:
        """Return all numeric columns of a batch of records, and add the texts of the status."""

        def count(key: str) -> np.ndarray:
            return positive(_plain(texts[key]))

        ctime, qtime, etime, start, end = map(count, _STAMPS)
        limit, used, cpu_time = (self._length(key, texts[key], lines) for key in _LENGTHS)
        submit, without_negative = either(ctime, qtime), self._problems.without_negative
        start = np.where(np.isnan(start) & (used > 0), end - used, start)
        end = np.where(np.isnan(end), start + used, end)
        run = without_negative(end - start, lines, "run time (end before start)", "{}")
        wait = without_negative(either(start, end) - submit, lines, "wait (start before submission)", "{}")
        self._late += int((run - used > _SLACK).sum())
        procs, gpus = self._sized(
            requested, texts, "Resource_List.ncpus", "Resource_List.select", "Resource_List.nodes"
        )
        vnode_procs, nodes = self._sized(allocated, texts, "exec_vnode", "exec_host")
        alloc = either(either(count("resources_used.ncpus"), count("total_execution_slots")), vnode_procs)
        each = np.where(alloc > 0, alloc, procs)
        pmem = self._amount("Resource_List.pmem", texts, lines)
        runs = either(count("run_count"), count("start_count")) - 1
        at_limit = (run >= limit) & (limit > 0)
        torque = [bool(owner) and not count for owner, count in zip(texts["owner"], texts["run_count"])]
        texts["status"] = list(map(ending, texts["Exit_status"], np.isnan(start).tolist(), torque, at_limit.tolist()))
        return {
            "submit_time": submit,
            "eligible_time": etime,
            "wait_time": wait,
            "run_time": run,
            "req_procs": procs,
            "alloc_procs": alloc,
            "req_nodes": count("Resource_List.nodect"),
            "alloc_nodes": either(count("unique_node_count"), nodes),
            "req_gpus": either(_plain(texts["Resource_List.ngpus"]), gpus),
            "req_time": positive(limit),
            "req_mem_kib": either(self._amount("Resource_List.mem", texts, lines), pmem * procs),
            "used_mem_kib": self._amount("resources_used.mem", texts, lines),
            "avg_cpu_time": cpu_time / each,
            "restarts": np.maximum(either(runs, _plain(texts["reruns"])), 0.0),
        }

    def _length(self, key: str, texts: Sequence[str], lines: Sequence[int]) -> np.ndarray:
        """Return durations in seconds; report texts that are not durations."""
        values = self._times.numbers(texts)
        what = f"{key} that are not durations (accepted: seconds, H:M:S)"
        self._problems.unknown_at(np.flatnonzero(np.isinf(values)).tolist(), lines, what, texts)
        return np.where(np.isinf(values), np.nan, values)

    def _amount(self, key: str, texts: Mapping[str, Sequence[str]], lines: Sequence[int]) -> np.ndarray:
        """Return sizes in KiB; 0 is unknown, and texts that are not sizes are unknown and reported."""
        kib_of = {text: size_kib(text) if text else 0.0 for text in set(texts[key])}
        values = np.fromiter(map(kib_of.__getitem__, texts[key]), dtype=float, count=len(texts[key]))
        what = f"{key} that are not sizes (accepted: a number with b, kb, mb, gb, tb, or w)"
        self._problems.unknown_at(np.flatnonzero(np.isnan(values)).tolist(), lines, what, texts[key])
        return positive(values)

    def _sized(
        self, size: Callable[..., tuple[float, float]], texts: dict[str, list[str]], *keys: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return two amounts of every record."""
        sizes = np.array([size(*record) for record in zip(*(texts[key] for key in keys))])
        return sizes[:, 0], sizes[:, 1]

    def trace(self, source: str) -> Trace:
        """Return all jobs as a sorted trace, with notes."""
        if not self._columns.jobs:
            what = "the log has no E record (a job that ended)" + self._problems.because()
            raise input_error(source, what, hint="read the log of a later day")
        others = {f"PBS {kind} record (only E counts)": n for kind, n in sorted(self._other_records.items())}
        parents = {"parent of an array (its subjobs count)": self._parents} if self._parents else {}
        notes = self._problems.notes()
        if gone := len(self._gone - self._ended):
            notes.append(f"{gone} jobs were deleted or aborted without an E record: the log does not describe them")
        if self._late:
            notes.append(
                f"{self._late} jobs had their processors for over a minute longer than the walltime that PBS recorded"
                " (suspended, or slow to start or end): their run time is end - start"
            )
        dropped = self._problems.counts() | parents | others
        info = LogInfo(source=source, format="pbs", dropped=dropped, notes=tuple(notes))
        return Trace(in_house_order(self._columns.join()), info)


def _plain(texts: Sequence[str]) -> np.ndarray:
    """Return texts as whole numbers; NaN for all other texts."""
    if not any(texts):
        return np.full(len(texts), np.nan)
    try:
        return np.array(texts, dtype=np.int64).astype(float)
    except (ValueError, OverflowError):
        return np.fromiter(map(number, texts), dtype=float, count=len(texts))


def _depends(text: str) -> str:
    """Return a job's dependencies in Slurm's notation, without server names. Entries about jobs that depend on this
    job are left out.

    >>> _depends("afterok:12.srv:13.srv@srv,beforeany:9.srv"), _depends("on:2")
    ('afterok:12:13', '')
    """
    items = (item.split(":") for item in text.split(",") if item.startswith("after"))
    return ",".join(":".join([kind, *(plain_id(job.split("@")[0]) or "" for job in jobs)]) for kind, *jobs in items)


def pairs_of(message: str) -> dict[str, str]:
    """Return the `key=value` pairs of a message. Quoted values keep their quotes and can contain blanks.

    PBS quotes values with blanks in ", or in ' if they contain a ". Torque does not quote values; its values end at the
    next word that looks like a key.

    >>> pairs_of('user=ada account="a b=c" start=5')
    {'user': 'ada', 'account': '"a b=c"', 'start': '5'}
    >>> pairs_of("account=some project queue=q")["account"]
    'some project'
    """
    if not (('="' in message or "='" in message) and _QUOTED_BLANK.search(message)):
        try:
            return dict([word.split("=", 1) for word in message.split()])
        except ValueError:  # a word without `=`
            pass
    return dict(_PAIR.findall(message))


def columns_of(messages: Sequence[str], keys: Sequence[str]) -> dict[str, list[str]]:
    """Return the value of each key in every message, empty if a message does not have the key.

    >>> columns_of(["a=1 b=2", "a=3 b=4", "b=5"], ["a", "b"])
    {'a': ['1', '3', ''], 'b': ['2', '4', '5']}
    """
    fields = {key: [""] * len(messages) for key in keys}
    for row, message in enumerate(messages):
        pairs = pairs_of(message)
        for key in fields.keys() & pairs.keys():
            fields[key][row] = pairs[key]
    return fields


@lru_cache(maxsize=MOST_CACHED)
def allocated(vnodes: str, hosts: str) -> tuple[float, float]:
    """Return the processors and nodes that were allocated to a job, from exec_vnode and exec_host; NaN means unknown.

    >>> allocated("(n1:ncpus=4:mem=1kb)+(n2:ncpus=2+n3:ncpus=2)", "n1/0*4+n2/0*4")
    (8.0, 2.0)
    >>> allocated("(n1[0]:ncpus=2+n1[1]:ncpus=2)", "")
    (4.0, 1.0)
    >>> allocated("", "n1/0*8+n2/3"), allocated("", "n1/0-3,6+n2/0"), allocated("", "n1/0+n1/1"), allocated("", "")
    ((9.0, 2.0), (6.0, 2.0), (2.0, 1.0), (nan, nan))
    """
    # Processors are the ncpus of exec_vnode, else the slots of exec_host. Nodes are the distinct hosts of exec_host,
    # else of exec_vnode, in which `n1[0]` and `n1[1]` are parts of one host.
    slots, names = 0.0, set()
    for part in hosts.split("+") if hosts else ():
        name, _, places = part.partition("/")
        names.add(name)
        slots += _slots(places)
    if vnodes:
        slots = float(sum(map(int, _NCPUS.findall(vnodes))))
        vnode_names = (part.strip("()").partition(":")[0] for part in vnodes.split("+"))
        names = names or {re.sub(r"\[\d+\]$", "", name) for name in vnode_names}
    return (slots or math.nan), (float(len(names)) or math.nan)


def _slots(text: str) -> float:
    """Return the number of slots: `0*8` means 8 slots, `0-3,6` means 5, other texts mean 1."""
    if "*" in text:
        times = number(text.partition("*")[2])
        return times if times > 0 else 1.0
    total = 0
    for piece in text.split(","):
        first, _, last = piece.partition("-")
        low, high = number(first), number(last)
        total += int(high - low) + 1 if high >= low else 1
    return float(total)
