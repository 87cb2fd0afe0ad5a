# SPDX-License-Identifier: Apache-2.0
"""Time stamps of batch systems as epoch seconds, who ran and who never did.

And run time and wait from recorded starts, ends and states. Pure.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo

import numpy as np

from .sighting import never_ran

STAMP_FORMS = "2024-01-31T14:00:00 (local to --timezone), the same with +01:00 or Z, or seconds since 1970"
_UNKNOWN = {"", "unknown", "none", "n/a", "invalid"}
_EPOCH_SECONDS = re.compile(r"[0-9]{1,12}(\.[0-9]*)?|[0-9](\.[0-9]*)?[eE]\+?[0-9]{1,2}")
"""Whole seconds, those of a column that pandas made real, and those it shortened (1.7e+09)."""
_QUARTER = 900  # every zone's clock changes on a quarter of an hour
_EPOCH = datetime(1970, 1, 1)


class LocalClock:
    """Local wall-clock seconds to epoch seconds in one zone, with what the nights of clock changes leave open.

    In autumn an hour is told twice: such a time is taken as its first pass, and `epoch` also says how much later the
    second pass would be. In spring an hour is skipped: a time inside it is taken with the offset before the change.
    O(n) and a zone look-up for each quarter of an hour met for the first time.

    >>> from zoneinfo import ZoneInfo
    >>> clock = LocalClock(ZoneInfo("Europe/Stockholm"))
    >>> summer, twice = 1719835200, 1730601000 - 7 * 86400  # 2024-07-01T12:00 and 2024-10-27T02:30, on the wall
    >>> epoch, later = clock.epoch(np.array([summer, twice])); epoch.tolist(), later.tolist()
    ([1719828000.0, 1729989000.0], [0.0, 3600.0])
    """

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._known: dict[int, tuple[float, float]] = {}
        self.local = self.repeated = self.skipped = 0

    def epoch(self, wall: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Epoch seconds, and how much later a repeated time's second pass is (0 elsewhere); counts as it goes."""
        quarters, place = np.unique(np.asarray(wall, dtype=np.int64) // _QUARTER, return_inverse=True)
        offsets = np.array([self._offsets(q) for q in quarters.tolist()]).reshape(-1, 2)
        before, after = offsets[place, 0], offsets[place, 1]
        self.local += len(place)
        self.repeated += int((before > after).sum())
        self.skipped += int((before < after).sum())
        return wall - before, np.maximum(before - after, 0.0)

    def notes(self) -> list[str]:
        """What should be said of times that carried no zone."""
        sentences = []
        if self.repeated:
            sentences.append(
                f"{self.repeated} times lie in an hour that a clock change repeats: taken as its first pass, unless"
                " the elapsed time or the submission says otherwise"
            )
        if self.skipped:
            sentences.append(f"{self.skipped} times lie in an hour that a clock change skips: the zone may be wrong")
        return sentences

    def _offsets(self, quarter: int) -> tuple[float, float]:
        if quarter not in self._known:
            wall = (_EPOCH + timedelta(seconds=quarter * _QUARTER)).replace(tzinfo=self._zone)
            ahead = [wall.replace(fold=fold).utcoffset() or timedelta(0) for fold in (0, 1)]
            self._known[quarter] = (ahead[0].total_seconds(), ahead[1].total_seconds())
        return self._known[quarter]


def parse_stamps(texts: Sequence[str], clock: LocalClock) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Epoch seconds (NaN unknown), the later pass of each (see `LocalClock`), and the rows that are no time stamp.

    >>> clock = LocalClock(UTC)
    >>> epoch, _, bad = parse_stamps(["1970-01-01T01:00:00", "Unknown", "60", "1970-01-01T01:00:00+01:00", "x"], clock)
    >>> epoch.tolist(), bad
    ([3600.0, nan, 60.0, 0.0, nan], [4])
    """
    epoch, later = np.full(len(texts), np.nan), np.zeros(len(texts))
    rows, bad = _plain_rows(texts)
    wall = _wall_seconds([texts[k] for k in rows])
    if wall is None:  # some date in this column does not exist
        rows, others = [], list(range(len(texts)))
    else:
        others = bad
        epoch[rows], later[rows] = clock.epoch(wall)
    bad = []
    for k in others:
        value = _one(texts[k])
        if isinstance(value, float):
            epoch[k] = value
        elif value is None:
            bad.append(k)
        else:
            one, pass_ = clock.epoch(np.array([(value - _EPOCH).total_seconds()]))
            epoch[k], later[k] = one[0], pass_[0]
    return epoch, later, bad


def _plain_rows(texts: Sequence[str]) -> tuple[list[int], list[int]]:
    """Rows in the usual form (by its length), and the others."""
    if set(map(len, texts)) == {19}:
        return list(range(len(texts))), []
    plain: list[int] = []
    others: list[int] = []
    for k, text in enumerate(texts):
        (plain if len(text) == 19 else others).append(k)
    return plain, others


def _wall_seconds(texts: list[str]) -> np.ndarray | None:
    if not texts:
        return np.empty(0, dtype=np.int64)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy reads a zone, and warns: such a time is no local one
            return np.array(texts, dtype="datetime64[s]").astype(np.int64)
    except (ValueError, Warning):
        return None


def _one(text: str) -> float | datetime | None:
    """Epoch seconds or NaN, a naive local time, or None for what is no time stamp."""
    word = text.strip()
    if word.lower() in _UNKNOWN:
        return float("nan")
    if _EPOCH_SECONDS.fullmatch(word):
        return float(word)
    try:
        stamp = datetime.fromisoformat(word)
    except ValueError:
        return None
    if stamp.tzinfo is None:
        return stamp
    return stamp.astimezone(UTC).timestamp() if 1 < stamp.year < 9999 else None


UNFINISHED = (
    "pending", "running", "suspended", "configuring", "completing", "resizing", "signaling", "stage_out"
)  # fmt: skip
WITHDRAWN = ("cancelled", "deadline", "revoked", "preempted", "boot_fail", "launch_failed")
Stamps = tuple[np.ndarray, np.ndarray]
"""Epoch seconds, and how much later the second pass of a repeated hour is (`stamps.LocalClock`)."""


NO_TIME = 4294967294.0
"""Slurm's NO_VAL as a time: its database and its JSON hold it, and 0, where there is no time."""
_DAY, _FIRST_LOGS = 86400.0, 1e8


def without_zeros(times: np.ndarray, submit: np.ndarray) -> np.ndarray:
    """Times (n,) with what stands for none unknown: 0, 1970-01-01, and NO_VAL; `submit` (n,) tells clocks from 0 apart.

    A log whose own clock begins at 0 keeps its zeros. A day is allowed for, because a date may be of any zone.

    >>> without_zeros(np.array([0.0, 1.7e9, 4294967294.0, 3600.0]), np.full(4, 1.7e9)).tolist()
    [nan, 1700000000.0, nan, nan]
    >>> without_zeros(np.array([0.0]), np.array([0.0])).tolist()
    [0.0]
    """
    is_zero = (np.abs(times) <= _DAY) & (submit > _FIRST_LOGS)
    return np.where(is_zero | (np.abs(times - NO_TIME) <= _DAY), np.nan, times)


def unfinished(status: np.ndarray, words: Mapping[str, int], end: np.ndarray | None) -> np.ndarray:
    """Which jobs (n,) had not finished; a record RESIZING with an end is a size that a job had, and is over."""
    resized = are(status, words, ("resizing",))
    over = resized & ~np.isnan(end) if end is not None else np.zeros(len(status), bool)
    return np.asarray(are(status, words, UNFINISHED) & ~over)


def run_and_wait(
    submit: np.ndarray,
    start: Stamps | None,
    end: Stamps | None,
    elapsed: np.ndarray | None,
    status: np.ndarray,
    words: Mapping[str, int],
    held: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Run time and wait of every job (n,), seconds, negative where the records contradict each other. O(n).

    `status` are codes of `words` (-1 unknown), `held` marks jobs known to have held something. Starts and ends are
    without zeros (`without_zeros`). The run is `elapsed`, else end - start, where the start is not before the
    submission. One that was withdrawn from the queue (a state that says so, no length, nothing held), that is
    pending or has no start never ran: no run time, and its wait lasts until it left. One that had not finished has no
    run time. Where no start is recorded at all, it is end - elapsed.
    """
    nothing = (np.full(len(submit), np.nan), np.zeros(len(submit)))
    no_start = start is None
    begin, begin_later = nothing if start is None else start
    stop, stop_later = nothing if end is None else end
    length = stop - begin if elapsed is None else np.where(np.isnan(elapsed), stop - begin, elapsed)
    begin, stop = settle(submit, begin, begin_later, stop, stop_later, elapsed)
    if no_start:
        begin = stop - length
    withdrawn, pending = (are(status, words, which) for which in (WITHDRAWN, ("pending",)))
    goes_on = unfinished(status, words, None if end is None else stop)
    from_times = np.ones(len(submit), bool) if elapsed is None else np.isnan(elapsed)
    length = np.where(from_times & (begin < submit), np.nan, length)
    known = np.zeros(len(submit)) if no_start else begin  # no start recorded at all says nothing of any job
    never = never_ran(known, withdrawn & (length == 0) & ~held) | pending
    run = np.where(never | goes_on, np.nan, length)
    wait = np.where(never, np.where(goes_on, np.nan, stop - submit), begin - submit)
    return run, wait


def are(codes: np.ndarray, words: Mapping[str, int], which: Sequence[str]) -> np.ndarray:
    """Which codes mean one of these words; -1 means none.

    >>> are(np.array([0, -1, 1]), {"pending": 0, "failed": 1}, ["pending"]).tolist()
    [True, False, False]
    """
    meant = np.zeros(len(words) + 1, dtype=bool)  # the last place is that of code -1
    meant[[words[word] for word in which if word in words]] = True
    return np.asarray(meant[codes])


def settle(
    submit: np.ndarray,
    start: np.ndarray,
    start_later: np.ndarray,
    end: np.ndarray,
    end_later: np.ndarray,
    elapsed: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Which pass of a repeated hour: the one the elapsed time needs, else the one not before the submission."""
    if not (start_later.any() or end_later.any()):
        return start, end
    if elapsed is not None:
        other_start = (start_later > 0) & (end - (start + start_later) == elapsed) & (end - start != elapsed)
        start = np.where(other_start, start + start_later, start)
        other_end = (end_later > 0) & (end + end_later - start == elapsed) & (end - start != elapsed)
        end = np.where(other_end, end + end_later, end)
    early = (start_later > 0) & (start < submit)
    start = np.where(early & (start + start_later >= submit), start + start_later, start)
    return start, np.where((end_later > 0) & (end < start), end + end_later, end)
