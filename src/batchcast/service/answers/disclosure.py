# SPDX-License-Identifier: Apache-2.0
"""Privacy rules: which data of the store one viewer may see, and figures over several users that do not disclose a job.

If the site hides jobs, users see their own jobs, and figures over at least `least_users` users. Callers without an
identity see only these figures. Root and the user who runs the service see everything.

The difference of two answers, asked a second apart or over slightly different time spans, must not reveal one job. So,
if jobs are hidden, figures cover only complete days (UTC) on which jobs of at least `least` users ended. With complete
days, two figures of the same selection are equal, or differ by whole days with several users each. The difference of
two selections, such as a partition and an account, could also reveal a job. Rounding to two significant digits hides
the job if one job is less than a twentieth of the total.

If one user contributes most of a sum, the sum reveals that user's amount, however many users it covers. So each day and
each figure must also satisfy the p % rule of statistical offices (`may_show`).

References
----------
.. [1] A. Hundepool et al., *Statistical Disclosure Control*, Wiley, 2012, section 4.2.2.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import BatchcastError, NoAnswer, Refused, UsageError
from ...predict.protocol import Grounds, Prediction
from ...store.packed import Packed
from ...store.place import is_open
from ...store.reader import Reader
from ...store.rows import NOTHING
from ..settings import Settings, is_private
from .latest import CUT

if TYPE_CHECKING:
    from ...table import Trace

DAY_S = 86400.0
Row = Mapping[str, Any]


def rows_of_complete_days(rows: Sequence[Row], time: str, least: int, now: float) -> list[Row]:
    """Return the rows whose day is over and has at least `least` users; `time` is a column in epoch seconds (UTC).

    >>> rows = [{"t": 5.0 + k, "user_id": user} for k, user in enumerate("abc")] + [{"t": 90000.0, "user_id": "a"}]
    >>> len(rows_of_complete_days(rows, "t", 3, 200000.0)), len(rows_of_complete_days(rows, "t", 3, 80000.0))
    (3, 0)
    """
    several = complete_days(rows, time, least, now)
    return [row for row in rows if row[time] // DAY_S in several]


P_SHARE = 0.1
"""The p % rule (p = 10): users other than the two largest have at least this share of the largest user's amount."""


def is_of_several(amounts: Mapping[Any, float], least: int) -> bool:
    """Return whether a sum of these amounts by user may be shown: it needs at least `least` users and must satisfy the
    p % rule.

    The user with the second largest amount can subtract it from the sum, and so knows an upper bound on the largest
    user's amount. The p % rule requires that this bound is at least p % too high.

    >>> is_of_several({"a": 90.0, "b": 5.0, "c": 9.0}, 3), is_of_several({"a": 90.0, "b": 50.0, "c": 8.0}, 3)
    (False, False)
    >>> is_of_several({"a": 90.0, "b": 50.0, "c": 9.0}, 3), is_of_several({"a": 90.0}, 1)
    (True, True)
    """
    if least <= 1:
        return True
    largest = sorted(amounts.values(), reverse=True)
    return len(largest) >= least and math.fsum(largest[2:]) >= P_SHARE * largest[0]


def may_show(rows: Iterable[Row], least: int) -> bool:
    """Return whether figures over these jobs or predictions may be shown, judged by jobs and processors per user."""
    if least <= 1:
        return True
    jobs: Counter[Any] = Counter()
    held: defaultdict[Any, float] = defaultdict(float)
    for row in rows:
        jobs[row["user_id"]] += 1
        held[row["user_id"]] += _amount(row)
    return _is_shown(jobs, held, least)


def _is_shown(jobs: Mapping[Any, float], held: Mapping[Any, float], least: int) -> bool:
    """Return whether sums of these numbers of jobs by user, and of these processors by user if known, may be shown."""
    return is_of_several(jobs, least) and (not any(held.values()) or is_of_several(held, least))


def _amount(row: Row) -> float:
    """Return what a row adds to its user's sum: processor-seconds of the job if it has ended, else processors; 0 for a
    prediction.
    """
    if "end_time" not in row:
        return 0.0
    start, end, procs = row.get("start_time"), row["end_time"], row.get("alloc_procs") or row.get("req_procs") or 0.0
    return float(procs if end is None else 0.0 if start is None else (end - start) * procs)


def complete_days(rows: Iterable[Row], time: str, least: int, now: float) -> set[float]:
    """Return the complete days that have rows of enough users, in days since the epoch. The rows are read once and not
    stored.

    >>> rows = [{"t": 5.0 + k, "user_id": user} for k, user in enumerate("abc")] + [{"t": 90000.0, "user_id": "a"}]
    >>> complete_days(iter(rows), "t", 3, 200000.0)
    {0.0}
    """
    return {day for _, day in complete_days_by(rows, lambda _: "", time, least, now)}


def complete_days_by(
    rows: Iterable[Row], group: Callable[[Row], Any], time: str, least: int, now: float
) -> set[tuple[Any, float]]:
    """Return for each group of rows the complete days that have rows of enough users, as (group, day)."""
    jobs: dict[tuple[Any, float], Counter[Any]] = {}
    held: dict[tuple[Any, float], defaultdict[Any, float]] = {}
    for row in rows:
        key = (group(row), row[time] // DAY_S)
        jobs.setdefault(key, Counter())[row["user_id"]] += 1
        held.setdefault(key, defaultdict(float))[row["user_id"]] += _amount(row)
    return {
        (name, day) for (name, day), of in jobs.items()
        if day < now // DAY_S and _is_shown(of, held[name, day], least)
    }  # fmt: skip


def groups(rows: Iterable[Row], key: Callable[[Row], Any], jobs: int, users: int) -> dict[Any, list[Row]]:
    """Group rows by a key; groups with too few jobs or too few users are left out."""
    of: dict[Any, list[Row]] = {}
    for row in rows:
        of.setdefault(key(row), []).append(row)
    return {name: group for name, group in of.items() if len(group) >= jobs and may_show(group, users)}


def whole_days(since: float, until: float) -> tuple[float, float]:
    """Move the beginning and the end of a time span back to the beginning of their days (UTC).

    >>> whole_days(90000.0, 300000.0), whole_days(90000.0, float("inf"))
    ((86400.0, 259200.0), (86400.0, inf))
    """
    begin, end = (x // DAY_S * DAY_S if math.isfinite(x) else x for x in (since, until))
    return begin, end


def rounded(figures: Mapping[str, Any], least: int = 2) -> dict[str, Any]:
    """Round every number to two significant digits if `least`, the number of users that figures must cover, is above 1.

    >>> rounded({"jobs": 1234, "mean": 0.0567, "name": "main", "none": float("nan")})
    {'jobs': 1200, 'mean': 0.057, 'name': 'main', 'none': nan}
    >>> rounded({"jobs": 1234}, least=1)
    {'jobs': 1234}
    """
    return {name: _two_digits(value) if least > 1 else value for name, value in figures.items()}


def _two_digits(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return rounded(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value == 0:
        return value
    digits = 1 - math.floor(math.log10(abs(value)))
    return type(value)(round(value, digits))


class Viewer(NamedTuple):
    """The user who asks a question: name (None if unknown), and whether this user may see every job."""

    name: str | None
    sees_all: bool = False


class OfOthers:
    """A value that depends on other users' jobs (`whole`), and the text that replaces it if jobs are hidden
    (`instead`).

    `disclosed` chooses `whole` or `instead`. A document that still contains an `OfOthers` cannot be written. So code
    that forgets to call `disclosed` raises an error and reveals no job.
    """

    __slots__ = ("instead", "whole")

    def __init__(self, whole: Any, instead: Any = None) -> None:
        self.whole, self.instead = whole, instead

    def __repr__(self) -> str:
        return "OfOthers(...)"


def disclosed(value: Any, hidden: bool) -> Any:
    """Replace each `OfOthers` in an answer by its text or its value. No other function decides what is hidden.

    >>> disclosed([{"basis": OfOthers("behind 40 jobs", "the queue"), "start_s": 5.0}], hidden=True)
    [{'basis': 'the queue', 'start_s': 5.0}]
    >>> disclosed({"basis": OfOthers("behind 40 jobs", "the queue")}, hidden=False)
    {'basis': 'behind 40 jobs'}
    """
    if isinstance(value, OfOthers):
        return value.instead if hidden else value.whole
    if isinstance(value, dict):
        return {name: disclosed(of, hidden) for name, of in value.items()}
    return [disclosed(of, hidden) for of in value] if isinstance(value, list) else value


_RESTS_ON = {
    Grounds.SIMULATION: "a simulation of the queue and the running jobs",
    Grounds.MODEL: "a model of the waits of such jobs on this cluster",
    Grounds.CLASS: "past waits of such jobs on this cluster",
    Grounds.OWN_HISTORY: "past waits of this user's jobs on this cluster",
    Grounds.EVERYONE: "past waits of jobs on this cluster",
    NOTHING: "too few such jobs have started so far",
}


def basis_of(wait: Prediction, more: str = "") -> OfOthers:
    """Return the text on what a predicted wait is based. The full text counts the jobs ahead, which could reveal other
    users' jobs.

    >>> from batchcast.predict.protocol import Grounds
    >>> disclosed(basis_of(Prediction(5.0, basis="behind 40 jobs", grounds=Grounds.MODEL)), hidden=True)
    'a model of the waits of such jobs on this cluster'
    """
    instead = _RESTS_ON.get(wait.grounds, "the present queue") + CUT * wait.basis.endswith(CUT)
    return OfOthers(wait.basis + more, instead + more)


class Whose(NamedTuple):
    """A selection of finished jobs: by user, account, partition, or any combination of these."""

    user: str | None = None
    account: str | None = None
    partition: str | None = None


class Site(NamedTuple):
    """An open store as one viewer sees it at one instant.

    `memory` has the values that the collector stored about the cluster. `private` says whether other users' jobs are
    hidden from this viewer. `now` is in epoch seconds, and the job history covers the last `days` days.
    """

    reader: Reader
    cluster: str
    memory: dict[str, Any]
    private: bool
    settings: Settings
    viewer: Viewer
    now: float
    days: float = math.inf

    @property
    def least(self) -> int:
        """Number of users that a figure must cover at least."""
        return int(self.settings["least_users"]) if self.private else 1

    @property
    def partitions(self) -> Mapping[str, Mapping[str, Any]]:
        """The stored facts about each partition, by name."""
        known: Mapping[str, Mapping[str, Any]] = self.memory.get("site", {}).get("partitions", {})
        return known

    def disclosed(self, value: Any) -> Any:
        """Replace each `OfOthers` in a value by what this viewer may see."""
        return disclosed(value, self.private)

    def last_days(self, days: float) -> float:
        """Return the beginning of the last `days` days, epoch seconds; if jobs are hidden, the beginning of a day."""
        since = self.now - days * DAY_S
        return whole_days(since, math.inf)[0] if self.private else since


@contextmanager
def open_site(settings: Settings, viewer: Viewer, now: float) -> Iterator[Site]:
    """Open the store that the settings name, under the privacy rules for this viewer, and close it afterwards."""
    with Reader(settings["store"]) as reader:
        cluster = choose_cluster(reader, settings["cluster"] or None)
        memory = reader.memory(cluster)
        private = is_private(settings, memory) and not viewer.sees_all
        yield Site(reader, cluster, memory, private, settings, viewer, now)


def check_may_see(site: Site, user: str | None) -> None:
    """Raise Refused if jobs are hidden and the viewer is not their owner `user`."""
    if site.private and (user is None or site.viewer.name != user):
        who = site.viewer.name or "somebody unknown"
        raise Refused(f"jobs are private here: {who} may not see other users' jobs",
                      hint="your own jobs, or accuracy and report -p for figures over several users")  # fmt: skip


def start_settings(settings: Settings, now: float) -> dict[str, Any]:
    """Return the settings that an answer about start times shows."""
    return {
        "store": settings.shown("store"), "scheduler": settings["scheduler"], "now_s": now, "track_record_days": 30,
    }  # fmt: skip


def used(site: Site, who: Whose, since: float, until: float, least: int, statement: str = "used") -> Packed:
    """Return the finished jobs of a time span. If figures must cover several users, only jobs of complete days are
    returned.

    `statement` selects all jobs (`used`), or the jobs with measured memory (`used_memory`).
    """
    chosen = {"cluster": site.cluster, "since": since, "until": until, **who._asdict()}
    if least <= 1:
        return Packed(site.reader.each(statement, **chosen))
    several = complete_days(site.reader.each(statement, **chosen), "end_time", least, site.now)
    return Packed(row for row in site.reader.each(statement, **chosen) if row["end_time"] // DAY_S in several)


def refuse_open_store(settings: Settings) -> None:
    """Raise Refused if jobs are hidden but other users can read the file of the store."""
    try:
        with Reader(settings["store"]) as reader:
            hidden = any(is_private(settings, reader.memory(name)) for name in reader.clusters())
            opened = hidden and is_open(settings["store"])
    except BatchcastError:
        return  # each answer reports a missing store itself
    if opened:
        shown = settings.shown("store")
        raise Refused(
            f"jobs are hidden here, and {shown} is open to others",
            hint=f"chmod 600 {shown}* ; batchcast collect closes it in its next cycle",
        )


def choose_cluster(reader: Reader, asked: str | None) -> str:
    """Return the requested cluster, or the only cluster of the store."""
    clusters = reader.clusters()
    if asked:
        if asked not in clusters:
            raise UsageError(f"no cluster {asked!r} in {reader.shown} (accepted: {', '.join(clusters) or 'none yet'})")
        return asked
    if len(clusters) != 1:
        if not clusters:
            raise NoAnswer(f"{reader.shown} has no cluster yet", hint="let batchcast collect run one cycle")
        raise UsageError(f"{reader.shown} has several clusters: choose with -M ({', '.join(clusters)})")
    return clusters[0]


class Exported(NamedTuple):
    """An exported log, its cluster, and the user whose jobs the log has (None: all users)."""

    trace: Trace
    cluster: str
    of: str | None


def exported(
    settings: Settings, viewer: Viewer, since: float = -math.inf, until: float = math.inf, *, as_told: bool = False
) -> Exported:
    """Return the jobs submitted in [since, until), epoch seconds. If jobs are hidden, viewers get only their own jobs,
    except the user who runs the collector; an unknown viewer is refused.
    """
    from ...store.database import Store
    from ...store.history import to_trace

    with open_site(settings, viewer, math.inf) as site:
        collects = viewer.name is not None and viewer.name == site.memory.get("collected_by")
        hidden = site.private and not collects
        of = viewer.name if hidden else None
        if hidden and of is None:
            raise Refused(
                "jobs are private here, and the user who asks is not known",
                hint="run the command as the owner of the jobs",
            )
        with Store(settings["store"], read_only=True) as store, store.begin() as connection:
            trace = to_trace(connection, site.cluster, since, until, as_told=as_told, user=of, waiting=True)
    return Exported(trace, site.cluster, of)
