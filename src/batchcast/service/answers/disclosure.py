# SPDX-License-Identifier: Apache-2.0
"""Privacy rules: what one viewer may see of the store, and figures over users that disclose no single job.

If the site hides jobs, users see their own jobs, and figures only over at least `least_users` users. Callers without an
identity see only such figures. Root and the user who runs the service see everything.

Two answers a second apart, or over slightly different spans, must not reveal one job by subtraction. So, if jobs are
hidden, figures cover only complete days (UTC) on which jobs of at least `least` users ended: two figures of one
selection are equal, or differ by whole days of several users each. A difference between selections (a partition and an
account) is hidden by rounding to two significant digits, if one job is less than a twentieth of the total.

A sum that is mostly one user's reveals that user, however many users it covers. So each day and each figure must also
satisfy the p % rule of statistical offices (`may_show`).

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
    """Return whether a sum of these amounts by user may be shown: at least `least` users, and the p % rule.

    The second largest user can subtract the own amount from the sum, which gives an upper bound on the largest user's
    amount. The p % rule demands that this bound is at least p % too high.

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
    """Return whether figures over these jobs or predictions may be shown, by their number and their processors."""
    if least <= 1:
        return True
    jobs: Counter[Any] = Counter()
    held: defaultdict[Any, float] = defaultdict(float)
    for row in rows:
        jobs[row["user_id"]] += 1
        held[row["user_id"]] += _amount(row)
    return _is_shown(jobs, held, least)


def _is_shown(jobs: Mapping[Any, float], held: Mapping[Any, float], least: int) -> bool:
    """Return whether sums of jobs, and of processors or processor-seconds if known, may be shown, by user."""
    return is_of_several(jobs, least) and (not any(held.values()) or is_of_several(held, least))


def _amount(row: Row) -> float:
    """Return a job's part of a sum: processor-seconds, or processors before its end; 0 for a prediction."""
    if "end_time" not in row:
        return 0.0
    start, end, procs = row.get("start_time"), row["end_time"], row.get("alloc_procs") or row.get("req_procs") or 0.0
    return float(procs if end is None else 0.0 if start is None else (end - start) * procs)


def complete_days(rows: Iterable[Row], time: str, least: int, now: float) -> set[float]:
    """Return the complete days, in days since the epoch. The rows are read once and not stored.

    >>> rows = [{"t": 5.0 + k, "user_id": user} for k, user in enumerate("abc")] + [{"t": 90000.0, "user_id": "a"}]
    >>> complete_days(iter(rows), "t", 3, 200000.0)
    {0.0}
    """
    return {day for _, day in complete_days_by(rows, lambda _: "", time, least, now)}


def complete_days_by(
    rows: Iterable[Row], group: Callable[[Row], Any], time: str, least: int, now: float
) -> set[tuple[Any, float]]:
    """Return the complete days of each group of rows as (group, day)."""
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
    """Return rows by a key, for keys with enough jobs and enough users."""
    of: dict[Any, list[Row]] = {}
    for row in rows:
        of.setdefault(key(row), []).append(row)
    return {name: group for name, group in of.items() if len(group) >= jobs and may_show(group, users)}


def whole_days(since: float, until: float) -> tuple[float, float]:
    """Move the beginning of a span back to a whole day, and its end back to a whole day.

    >>> whole_days(90000.0, 300000.0), whole_days(90000.0, float("inf"))
    ((86400.0, 259200.0), (86400.0, inf))
    """
    begin, end = (x // DAY_S * DAY_S if math.isfinite(x) else x for x in (since, until))
    return begin, end


def rounded(figures: Mapping[str, Any], least: int = 2) -> dict[str, Any]:
    """Round every number to two significant digits, if figures must cover at least two users.

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
    """Who asks: the user's name (None if unknown), and whether this user may see every job."""

    name: str | None
    sees_all: bool = False


class OfOthers:
    """A value that is based on single jobs of any user, and the text to show in its place if jobs are hidden.

    `disclosed` chooses one of the two. A document with an unresolved value cannot be written, so a forgotten call is an
    error and not a disclosure.
    """

    __slots__ = ("instead", "whole")

    def __init__(self, whole: Any, instead: Any = None) -> None:
        self.whole, self.instead = whole, instead

    def __repr__(self) -> str:
        return "OfOthers(...)"


def disclosed(value: Any, hidden: bool) -> Any:
    """Return the part of an answer that a viewer may see; no other function decides what is hidden.

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
    """Return the basis of a predicted wait. The full text counts jobs ahead, from which jobs could be inferred.

    >>> from batchcast.predict.protocol import Grounds
    >>> disclosed(basis_of(Prediction(5.0, basis="behind 40 jobs", grounds=Grounds.MODEL)), hidden=True)
    'a model of the waits of such jobs on this cluster'
    """
    instead = _RESTS_ON.get(wait.grounds, "the present queue") + CUT * wait.basis.endswith(CUT)
    return OfOthers(wait.basis + more, instead + more)


class Whose(NamedTuple):
    """Whose finished jobs: a user's, an account's, a partition's, or any combination of these."""

    user: str | None = None
    account: str | None = None
    partition: str | None = None


class Site(NamedTuple):
    """An open store as one viewer sees it at one instant.

    It has the cluster, what the collector stored about it (`memory`), whether jobs are hidden from this viewer
    (`private`), and `now` in epoch seconds. Its history covers the last `days` days.
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
        """Smallest number of users that a figure must cover."""
        return int(self.settings["least_users"]) if self.private else 1

    @property
    def partitions(self) -> Mapping[str, Mapping[str, Any]]:
        """What is known of each partition, by name."""
        known: Mapping[str, Mapping[str, Any]] = self.memory.get("site", {}).get("partitions", {})
        return known

    def disclosed(self, value: Any) -> Any:
        """Return the part of a value that this viewer may see."""
        return disclosed(value, self.private)

    def last_days(self, days: float) -> float:
        """Return the beginning of the last `days` days in epoch seconds; if jobs are hidden, of a whole day."""
        since = self.now - days * DAY_S
        return whole_days(since, math.inf)[0] if self.private else since


@contextmanager
def open_site(settings: Settings, viewer: Viewer, now: float) -> Iterator[Site]:
    """Open the store of the settings as this viewer may see it, and close it afterwards."""
    with Reader(settings["store"]) as reader:
        cluster = choose_cluster(reader, settings["cluster"] or None)
        memory = reader.memory(cluster)
        private = is_private(settings, memory) and not viewer.sees_all
        yield Site(reader, cluster, memory, private, settings, viewer, now)


def check_may_see(site: Site, user: str | None) -> None:
    """Raise Refused if jobs are hidden and the viewer does not own them."""
    if site.private and (user is None or site.viewer.name != user):
        who = site.viewer.name or "somebody unknown"
        raise Refused(f"jobs are private here: {who} may not see other users' jobs",
                      hint="your own jobs, or accuracy and report -p for figures over several users")  # fmt: skip


def start_settings(settings: Settings, now: float) -> dict[str, Any]:
    """Return the settings on which an answer about starts is based."""
    return {
        "store": settings.shown("store"), "scheduler": settings["scheduler"], "now_s": now, "track_record_days": 30,
    }  # fmt: skip


def used(site: Site, who: Whose, since: float, until: float, least: int, statement: str = "used") -> Packed:
    """Return the finished jobs of a span; if figures must cover several users, only jobs of complete days.

    `statement` selects all of them (`used`), or jobs with measured memory (`used_memory`).
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
        return  # without a store, each answer reports that itself
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
            raise NoAnswer(f"{reader.shown} holds no cluster yet", hint="let batchcast collect run one cycle")
        raise UsageError(f"{reader.shown} holds several clusters: choose with -M ({', '.join(clusters)})")
    return clusters[0]


class Exported(NamedTuple):
    """The log, its cluster, and the user whose jobs it has (None: all users)."""

    trace: Trace
    cluster: str
    of: str | None


def exported(
    settings: Settings, viewer: Viewer, since: float = -math.inf, until: float = math.inf, *, as_told: bool = False
) -> Exported:
    """Return the jobs submitted in [since, until), epoch seconds: all to the collecting user; if jobs are hidden, else
    only the viewer's own, and none to an unknown viewer.
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
