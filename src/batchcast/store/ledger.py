# SPDX-License-Identifier: Apache-2.0
"""The user's ledger of submissions to clusters. The ledger is written before each submission, so that no job is
submitted twice.

The ledger is an SQLite file that only its user can read. An entry is on the disk before sbatch runs, and the job's
comment contains the entry's token. If the process is killed, the next call searches the cluster's queue for the token.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct, structs

from ..formats.slurm.sbatch import Request
from ..units import format_duration

CHOSEN, SUBMITTED, REJECTED, ABSENT = "chosen", "submitted", "rejected", "absent"
"""States of a submission: sbatch has not answered yet; the job has an id; sbatch rejected the job; Slurm has no such
job.
"""
_TABLE = """CREATE TABLE IF NOT EXISTS sent (
    token TEXT PRIMARY KEY, key TEXT UNIQUE, at REAL NOT NULL, digest TEXT NOT NULL, script TEXT NOT NULL,
    cluster TEXT NOT NULL, command TEXT NOT NULL, offers TEXT NOT NULL, state TEXT NOT NULL, job_id TEXT, said TEXT,
    start_time REAL, end_time REAL)"""
MARK = "sent-by-batchcast:"


class Offer(Struct, frozen=True, kw_only=True):
    """A way to submit a job to one cluster, with the predicted end. Times are epoch seconds of this computer, and
    unknown numbers are NaN."""

    cluster: str
    partition: str = ""
    qos: str | None = None
    what: str = ""  # What the way changes, in words
    command: str = ""  # The submit command without the script
    procs: float = 1.0
    limit_s: float = math.nan
    transfer_s: float = 0.0  # Time to copy the input files
    likely_start_s: float = math.nan
    by_90_start_s: float = math.nan
    likely_run_s: float = math.nan
    likely_end_s: float = math.nan
    by_90_end_s: float = math.nan
    # How much later than predicted the user's earlier jobs ended; the two ends above are corrected by these factors
    likely_end_s_factor: float = 1.0
    by_90_end_s_factor: float = 1.0
    by_90_end_comonotone_s: float = math.nan  # If the longest wait comes with the longest run time
    expected_end_s: float = math.nan
    chance_done_by: float = math.nan
    core_hours: float = math.nan
    # Run time on this cluster divided by the run time where the user's jobs have run, and its 90 % interval
    run_ratio: float = 1.0
    run_ratio_low: float = 1.0
    run_ratio_high: float = 1.0
    run_ratio_basis: str = ""
    dependence: str = ""
    basis: str = ""
    snapshot_s: float | None = None

    @staticmethod
    def read(recorded: Mapping[str, Any]) -> Offer:
        """Return an offer of a ledger or journal; fields of other versions are ignored."""
        names = Offer.__struct_fields__
        return Offer(**{name: value for name, value in recorded.items() if name in names and value is not None})

    @property
    def request(self) -> Request:
        """The request by which the job counts in a simulated queue."""
        options = {"ntasks": f"{self.procs:g}"}
        options |= {"partition": self.partition} if self.partition else {}
        return Request(options | ({"time": format_duration(self.limit_s)} if self.limit_s > 0 else {}))


class Entry(NamedTuple):
    """One submission. `offers` has the best offer of each cluster; the chosen offer comes first."""

    token: str
    key: str | None
    at: float
    digest: str
    script: str
    cluster: str
    command: Sequence[str]
    offers: Sequence[Offer]
    state: str = CHOSEN
    job_id: str | None = None
    answer: str | None = None
    start_time: float | None = None
    end_time: float | None = None


def ledger_path(env: Mapping[str, str]) -> Path:
    """Return the path of the user's ledger, below $XDG_STATE_HOME or ~/.local/state."""
    state = Path(env.get("XDG_STATE_HOME") or Path(env.get("HOME", "/")) / ".local" / "state")
    return state / "batchcast" / "submissions.db"


class Ledger(AbstractContextManager["Ledger"]):
    """The submissions of one user in an SQLite file.

    >>> import tempfile
    >>> place = tempfile.TemporaryDirectory()
    >>> with Ledger(Path(place.name) / "s.db") as ledger:
    ...     ledger.add(Entry("t1", None, 5.0, "d", "job.sh", "beta", ["sbatch"], []))
    ...     ledger.note("t1", SUBMITTED, job_id="7")
    ...     [(one.state, one.job_id) for one in ledger.entries()], ledger.unanswered("d")
    ([('submitted', '7')], [])
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # sqlite3 would create the file with the permissions that the umask allows.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        self._connection = sqlite3.connect(path, timeout=30.0, isolation_level=None)
        self._connection.execute("PRAGMA synchronous = FULL")  # an entry must survive a power failure
        self._connection.execute(_TABLE)

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @contextmanager
    def alone(self) -> Iterator[int]:
        """Hold the lock of the ledger during the block; yield the file descriptor of the lock.

        The caller passes the descriptor on to sbatch. If this process is killed, sbatch keeps the lock until it ends,
        so no other process searches for the job while sbatch may still submit it.
        """
        descriptor = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)

    def add(self, entry: Entry) -> None:
        """Write a new entry. The entry is on the disk when this function returns."""
        offers = json.dumps([structs.asdict(offer) for offer in entry.offers])
        values = entry._replace(command=json.dumps(entry.command), offers=offers)  # type: ignore[arg-type]
        marks = ", ".join("?" * len(values))
        self._connection.execute(f"INSERT INTO sent VALUES ({marks})", values)

    def note(self, token: str, state: str, job_id: str | None = None, answer: str | None = None) -> None:
        """Store the result of a submission. If the submission did not become a job, its key can be used again."""
        key = "NULL" if state in (REJECTED, ABSENT) else "key"
        words = f"UPDATE sent SET state = ?, job_id = ?, said = ?, key = {key} WHERE token = ?"
        self._connection.execute(words, (state, job_id, answer, token))

    def note_outcome(self, token: str, start: float | None, end: float | None) -> None:
        """Store when the job started and ended."""
        self._connection.execute("UPDATE sent SET start_time = ?, end_time = ? WHERE token = ?", (start, end, token))

    def unanswered(self, digest: str | None = None) -> list[Entry]:
        """Return the entries whose outcome is unknown, of one submission or of all submissions."""
        return self._read("state = ? AND (? IS NULL OR digest = ?)", (CHOSEN, digest, digest))

    def of_key(self, key: str) -> Entry | None:
        """Return the entry with a key that the user gave; None if no entry has this key."""
        return next(iter(self._read("key = ?", (key,))), None)

    def entries(self, since: float = 0.0) -> list[Entry]:
        """Return the entries of submissions since a time, the oldest first."""
        return self._read("at >= ?", (since,))

    def sent_since(self, since: float) -> dict[str, list[tuple[float, Request]]]:
        """Return the jobs submitted since an instant, by cluster: the time of each and its request.

        A collector that has not queried Slurm since that instant does not know these jobs.
        """
        requests: dict[str, list[tuple[float, Request]]] = {}
        for entry in self.entries(since):
            if entry.state == SUBMITTED and entry.offers:
                requests.setdefault(entry.cluster, []).append((entry.at, entry.offers[0].request))
        return requests

    def lateness(self, name: str, now: float) -> list[float]:
        """Return, for each submission, the actual time until the end divided by the uncorrected predicted time, ordered
        by end, the latest last.

        `name` is the field of the predicted end, likely_end_s or by_90_end_s; the field with this name and the ending
        _factor has the correction. A job that is late and has not ended counts with the time passed so far. Without
        late jobs that have not ended, early ends would be overrepresented.
        """
        ratios = []
        for entry in self.entries():
            told = getattr(entry.offers[0], name) if entry.state == SUBMITTED and entry.offers else math.nan
            is_cancelled = entry.end_time is not None and entry.start_time is None
            if not entry.at < told < math.inf or is_cancelled:
                continue
            taken = (now if entry.end_time is None else entry.end_time) - entry.at
            ratio = taken / (told - entry.at) * getattr(entry.offers[0], f"{name}_factor")
            if entry.end_time is not None or entry.at + taken > told:
                ratios.append((entry.at + taken, ratio))
        return [ratio for _, ratio in sorted(ratios)]

    def _read(self, which: str, values: Sequence[Any]) -> list[Entry]:
        """Return the entries that meet an SQL condition, the oldest first."""
        rows = self._connection.execute(f"SELECT * FROM sent WHERE {which} ORDER BY at", values)
        entries = [Entry._make(row) for row in rows]
        decoded = ((json.loads(str(entry.command)), json.loads(str(entry.offers))) for entry in entries)
        return [e._replace(command=words, offers=list(map(Offer.read, o))) for e, (words, o) in zip(entries, decoded)]
