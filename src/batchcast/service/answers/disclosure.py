# SPDX-License-Identifier: Apache-2.0
"""Privacy rules: which data of the store one viewer may see, and figures over several users that do not disclose a job.

If the site hides jobs, users see their own jobs, and figures over at least `least_users` users. Callers without an
identity see only these figures. Root and the user who runs the service see everything.

The difference of two answers, asked a second apart or over slightly different time spans, must not reveal one job. So,
if jobs are hidden, figures cover only complete days (UTC) on which jobs of at least `least` users ended (figures about
waits: started). With complete days, two figures of the same selection are equal, or differ by whole days with several
users each. The difference of two selections, such as a partition and an account, could also reveal a job. So there is
one fixed partition of the data: figures are sums of cells, a cell has the jobs of one partition of the cluster that
ended on one day, and a cell that may not be shown is in no figure. Two figures then differ by whole cells. Rounding to
two significant digits hides more, but is exact below 100.

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
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ...errors import BatchcastError, NoAnswer, Refused, UsageError
from ...store.packed import Packed
from ...store.place import is_open
from ...store.reader import Reader
from ..settings import Settings, is_private
from .answer import Answer, partitions_of, staleness

if TYPE_CHECKING:
    from ...table import Trace

DAY_S = 86400.0
Row = Mapping[str, Any]
T = TypeVar("T", bound=Row)


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
    return least <= 1 or bool(_shown_groups(rows, lambda _: None, least))


def _shown_groups(rows: Iterable[T], key: Callable[[T], Any], least: int) -> set[Any]:
    """Return the keys of the groups of rows whose number of jobs, and whose sum of processors if known, may be
    shown.
    """
    jobs, held = defaultdict[Any, Counter[Any]](Counter), defaultdict[Any, Any](lambda: defaultdict(float))
    for row in rows:
        name, user = key(row), row["user_id"]
        jobs[name][user] += 1
        held[name][user] += _amount(row)
    several = (group for group, by_user in jobs.items() if is_of_several(by_user, least))
    return {group for group in several if not any(held[group].values()) or is_of_several(held[group], least)}


def _amount(row: Row) -> float:
    """Return what a row adds to its user's sum: processor-seconds of the job if it has ended, else processors; 0 for a
    prediction.
    """
    if "end_time" not in row:
        return 0.0
    start, end, procs = row.get("start_time"), row["end_time"], row.get("alloc_procs") or row.get("req_procs") or 0.0
    return float(procs if end is None else 0.0 if start is None else (end - start) * procs)


def of_complete_days(
    read: Callable[[], Iterable[T]], time: str, least: int, now: float, group: Callable[[T], Any] = lambda _: None
) -> Iterator[T]:
    """Yield the rows that `read` returns. If `least` is above 1, yield only rows whose day (UTC) is over and has rows
    of at least `least` users in the row's group; `time` is a column in epoch seconds. Rows without a time are left out.

    In that case `read` is called twice, because the rows of a long history are not stored.

    >>> rows = [{"t": 5.0 + k, "user_id": user} for k, user in enumerate("abc")] + [{"t": 90000.0, "user_id": "a"}]
    >>> [len(list(of_complete_days(lambda: rows, "t", 3, now))) for now in (200000.0, 80000.0)]
    [3, 0]
    """
    if least <= 1:
        yield from read()
        return

    def day_of(row: T) -> tuple[Any, float]:
        return group(row), row[time] // DAY_S

    def timed() -> Iterator[T]:
        return (row for row in read() if row[time] is not None)

    days = {key for key in _shown_groups(timed(), day_of, least) if key[1] < now // DAY_S}
    yield from (row for row in timed() if day_of(row) in days)


def groups(rows: Iterable[Row], key: Callable[[Row], Any], jobs: int, users: int) -> dict[Any, list[Row]]:
    """Group rows by a key; groups with too few jobs or too few users are left out."""
    of = defaultdict[Any, list[Row]](list)
    for row in rows:
        of[key(row)].append(row)
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
    """Return a number with two significant digits; also each number in a mapping or a dataclass."""
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
        # most fields are plain numbers and texts, and an answer has about 40
        return {name: disclosed(of, hidden) if isinstance(of, _NESTED) else of for name, of in value.items()}
    return [disclosed(of, hidden) for of in value] if isinstance(value, list) else value


_NESTED = (OfOthers, dict, list)


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
        return partitions_of(self.memory)

    def disclosed(self, value: Any) -> Any:
        """Replace each `OfOthers` in a value by what this viewer may see."""
        return disclosed(value, self.private)

    def answer(self, shown: Mapping[str, Any], results: Sequence[Any], notes: Iterable[str] = (), **log: Any) -> Answer:
        """Return an answer in which each `OfOthers` is replaced. Warnings about old data come before `notes`."""
        warnings = [*staleness(self.memory, self.now), *notes]
        return Answer({"cluster": self.cluster, **log}, shown, warnings, self.disclosed(results))

    def last_days(self, days: float) -> float:
        """Return the beginning of the last `days` days, epoch seconds; if jobs are hidden, the beginning of a day."""
        return self.shown_from(self.now - days * DAY_S)

    def shown_from(self, since: float) -> float:
        """Return the instant `since`; if jobs are hidden, the beginning of its day (UTC)."""
        return whole_days(since, math.inf)[0] if self.private else since

    def check_may_see(self, user: str | None) -> None:
        """Raise Refused if jobs are hidden and the viewer is not their owner `user`."""
        if self.private and (user is None or self.viewer.name != user):
            who = self.viewer.name or "somebody unknown"
            hint = "your own jobs, or accuracy and report -p for figures over several users"
            raise Refused(f"jobs are private here: {who} may not see other users' jobs", hint=hint)

    def used(self, who: Whose, since: float, until: float, least: int, statement: str = "used") -> Packed:
        """Return the finished jobs of a time span. If figures must cover several users, only the jobs of complete days
        with several users in a job's partition are returned.

        `statement` selects all jobs (`used`), or the jobs with measured memory (`used_memory`).
        """
        chosen = {"cluster": self.cluster, "since": since, "until": until, **who._asdict()}
        read = partial(self.reader.each, statement, **chosen)
        return Packed(of_complete_days(read, "end_time", least, self.now, itemgetter("partition_id")))


@contextmanager
def open_site(settings: Settings, viewer: Viewer, now: float) -> Iterator[Site]:
    """Open the store that the settings name, under the privacy rules for this viewer, and close it afterwards."""
    with Reader(settings["store"]) as reader:
        cluster = choose_cluster(reader, settings["cluster"] or None)
        memory = reader.memory(cluster)
        private = is_private(settings, memory) and not viewer.sees_all
        yield Site(reader, cluster, memory, private, settings, viewer, now)


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
        hint = f"chmod 600 {shown}* ; batchcast collect closes it in its next cycle"
        raise Refused(f"jobs are hidden here, and {shown} is open to others", hint=hint)


def choose_cluster(reader: Reader, asked: str | None) -> str:
    """Return the requested cluster, or the only cluster of the store."""
    clusters = reader.clusters()
    if asked and asked not in clusters:
        raise UsageError(f"no cluster {asked!r} in {reader.safe_url} (accepted: {', '.join(clusters) or 'none yet'})")
    if not clusters:
        raise NoAnswer(f"{reader.safe_url} has no cluster yet", hint="let batchcast collect run one cycle")
    if len(clusters) > 1 and not asked:
        raise UsageError(f"{reader.safe_url} has several clusters: choose with -M ({', '.join(clusters)})")
    return asked or clusters[0]


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
        is_collector = viewer.name is not None and viewer.name == site.memory.get("collected_by")
        hidden = site.private and not is_collector
        of = viewer.name if hidden else None
        if hidden and of is None:
            hint = "run the command as the owner of the jobs"
            raise Refused("jobs are private here, and the user who asks is not known", hint=hint)
        with Store(settings["store"], read_only=True) as store, store.begin() as connection:
            trace = to_trace(connection, site.cluster, since, until, as_told=as_told, user=of, waiting=True)
    return Exported(trace, site.cluster, of)
