# SPDX-License-Identifier: Apache-2.0
"""Parse time stamps of batch systems, and compute run time and wait from recorded starts, ends and states."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo

import numpy as np

from ..table import Nominal
from .sighting import never_ran

STAMP_FORMS = "2024-01-31T14:00:00 (local to --timezone), the same with +01:00 or Z, or seconds since 1970"
BAD_STAMP = f"not a valid time, read as unknown (accepted: {STAMP_FORMS})"
_UNKNOWN = {"", "unknown", "none", "n/a", "invalid"}
_EPOCH_SECONDS = re.compile(r"[0-9]{1,12}(\.[0-9]*)?|[0-9](\.[0-9]*)?[eE]\+?[0-9]{1,2}")
"""Epoch seconds: whole, with a fraction (pandas writes 1.0 for columns with gaps), or shortened (1.7e+09)."""
_QUARTER = 900  # in seconds; in every time zone, clock changes happen at a quarter of an hour
_EPOCH = datetime(1970, 1, 1)


class LocalClock:
    """Converts local times of one zone to epoch seconds, and handles the hours of clock changes.

    In autumn, one hour occurs twice. A time in the repeated hour is read as the first pass of the hour, and `epoch`
    also returns the seconds from the first to the second pass. In spring, one hour is skipped. A time in the skipped
    hour is read with the offset before the change.

    >>> from zoneinfo import ZoneInfo
    >>> clock = LocalClock(ZoneInfo("Europe/Stockholm"))
    >>> summer, twice = 1719835200, 1730601000 - 7 * 86400  # 2024-07-01T12:00 and 2024-10-27T02:30, on the wall
    >>> epoch, later = clock.epoch(np.array([summer, twice])); epoch.tolist(), later.tolist()
    ([1719828000.0, 1729989000.0], [0.0, 3600.0])
    """

    # The conversion takes O(n) time, plus one look-up in the time zone's rules for each new quarter of an hour.

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._offsets_by_quarter: dict[int, tuple[float, float]] = {}
        self.local = self.repeated = self.skipped = 0

    def epoch(self, wall: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Convert local times (seconds since 1970-01-01 of the local calendar) to epoch seconds; return also the
        seconds between the first and the second pass of a repeated time, else 0."""
        quarters, place = np.unique(np.asarray(wall, dtype=np.int64) // _QUARTER, return_inverse=True)
        offsets = np.array([self._offsets(q) for q in quarters.tolist()]).reshape(-1, 2)
        before, after = offsets[place, 0], offsets[place, 1]
        self.local += len(place)
        self.repeated += int((before > after).sum())
        self.skipped += int((before < after).sum())
        return wall - before, np.maximum(before - after, 0.0)

    def notes(self) -> list[str]:
        """Return sentences about the ambiguous and impossible local times that were read so far."""
        choice = "read as its first pass, unless the elapsed time or the submission requires the second"
        counts = {f"repeats: {choice}": self.repeated, "skips: check the time zone of the log": self.skipped}
        return [f"{n} times lie in an hour that a clock change {what}" for what, n in counts.items() if n]

    def header(self) -> dict[str, str]:
        """Return the header field with the number of local times; empty if there are none."""
        return {"local_times": str(self.local)} if self.local else {}

    def _offsets(self, quarter: int) -> tuple[float, float]:
        """Return the offsets from UTC before and after a clock change at this quarter of an hour, in seconds."""
        if quarter not in self._offsets_by_quarter:
            wall = (_EPOCH + timedelta(seconds=quarter * _QUARTER)).replace(tzinfo=self._zone)
            ahead = [wall.replace(fold=fold).utcoffset() or timedelta(0) for fold in (0, 1)]
            self._offsets_by_quarter[quarter] = (ahead[0].total_seconds(), ahead[1].total_seconds())
        return self._offsets_by_quarter[quarter]


def parse_stamps(texts: Sequence[str], clock: LocalClock) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Parse time stamps (local time, ISO 8601 with an offset, or epoch seconds) to epoch seconds, NaN for unknown;
    return also the seconds between the passes of a repeated hour, and the rows that are not time stamps.

    >>> clock = LocalClock(UTC)
    >>> epoch, _, bad = parse_stamps(["1970-01-01T01:00:00", "Unknown", "60", "1970-01-01T01:00:00+01:00", "x"], clock)
    >>> epoch.tolist(), bad
    ([3600.0, nan, 60.0, 0.0, nan], [4])
    """
    epoch, later = np.full(len(texts), np.nan), np.zeros(len(texts))
    has_usual_length = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)) == 19
    rows, others = np.flatnonzero(has_usual_length).tolist(), np.flatnonzero(~has_usual_length).tolist()
    wall = _wall_seconds([texts[k] for k in rows])
    if wall is None:  # NumPy rejects the whole column if one date does not exist, so each text is parsed alone
        others = list(range(len(texts)))
    else:
        epoch[rows], later[rows] = clock.epoch(wall)
    bad: list[int] = []
    for k in others:
        value = _parse_stamp(texts[k])
        if isinstance(value, float):
            epoch[k] = value
        elif value is None:
            bad.append(k)
        else:
            first_pass, delay = clock.epoch(np.array([(value - _EPOCH).total_seconds()]))
            epoch[k], later[k] = first_pass[0], delay[0]
    return epoch, later, bad


def _wall_seconds(texts: list[str]) -> np.ndarray | None:
    """Return local times as seconds since 1970-01-01; None if one of the texts is not a plain local time."""
    if not texts:
        return np.empty(0, dtype=np.int64)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # NumPy only warns about an offset, but such a text is not a local time
            return np.array(texts, dtype="datetime64[s]").astype(np.int64)
    except (ValueError, Warning):
        return None


def _parse_stamp(text: str) -> float | datetime | None:
    """Return epoch seconds or NaN as a float, a local time as a datetime, or None if the text is no time stamp."""
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
"""Epoch seconds, and the seconds between the first and the second pass of a repeated hour (see `LocalClock`)."""
AnyStamps = Stamps | None


NO_TIME = 4294967294.0
"""Slurm's NO_VAL. Slurm's database and its JSON have this value, or 0, for a time that does not exist."""
_DAY, _FIRST_LOGS = 86400.0, 1e8  # a log with submit times after 1e8 (1973) has times in epoch seconds


def without_zeros(times: np.ndarray, submit: np.ndarray) -> np.ndarray:
    """Mark times that stand for "no time" as unknown: 0, 1970-01-01 and Slurm's NO_VAL.

    >>> without_zeros(np.array([0.0, 1.7e9, 4294967294.0, 3600.0]), np.full(4, 1.7e9)).tolist()
    [nan, 1700000000.0, nan, nan]
    >>> without_zeros(np.array([0.0]), np.array([0.0])).tolist()
    [0.0]
    """
    # If the submit times show that the log's own clock begins at 0, zeros are kept.
    #
    # Times within one day of 0 or of NO_VAL count as "no time", because a date can be of any time zone.
    is_zero = (np.abs(times) <= _DAY) & (submit > _FIRST_LOGS)
    return np.where(is_zero | (np.abs(times - NO_TIME) <= _DAY), np.nan, times)


def no_stamps(count: int) -> Stamps:
    """Return `count` unknown times."""
    return np.full(count, np.nan), np.zeros(count)


def unfinished(status: Nominal, end: np.ndarray) -> np.ndarray:
    """Return which jobs had not finished, booleans of shape (n,)."""
    # A RESIZING record with an end describes a former size of a job, and counts as finished.
    return np.asarray(status.is_any(UNFINISHED) & ~(status.is_any(["resizing"]) & ~np.isnan(end)))


def run_and_wait(
    submit: np.ndarray,
    start: AnyStamps,
    end: AnyStamps,
    elapsed: np.ndarray,
    status: Nominal,
    had_resources: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the run time and the wait of every job in seconds, NaN for unknown; negative if the recorded times
    contradict each other."""
    # The run time is `elapsed`, else end - start if the start is not before the submission. A job counts as never run
    # if it is pending, has no start, or was withdrawn from the queue (a state such as CANCELLED, a run time of 0 and no
    # resources). A job that never ran has no run time, and its wait lasts until it left the queue. An unfinished job
    # has no run time. If the log has no start times at all, the start is end - elapsed.
    starts, ends = start or no_stamps(len(submit)), end or no_stamps(len(submit))
    length = np.where(np.isnan(elapsed), ends[0] - starts[0], elapsed)
    begin, stop = settle(submit, starts, ends, elapsed)
    if start is None:
        begin = stop - length
    withdrawn, pending = status.is_any(WITHDRAWN), status.is_any(["pending"])
    goes_on = unfinished(status, stop)
    length = np.where(np.isnan(elapsed) & (begin < submit), np.nan, length)
    recorded = np.zeros(len(submit)) if start is None else begin  # a log without starts does not show who never ran
    never = never_ran(recorded, withdrawn & (length == 0) & ~had_resources) | pending
    run = np.where(never | goes_on, np.nan, length)
    wait = np.where(never, np.where(goes_on, np.nan, stop - submit), begin - submit)
    return run, wait


def settle(submit: np.ndarray, starts: Stamps, ends: Stamps, elapsed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Choose the pass of an hour that occurs twice: the pass that fits the elapsed time, else a pass that is not before
    the submission."""
    (start, start_later), (end, end_later) = starts, ends
    if not (start_later.any() or end_later.any()):
        return start, end
    other_start = (start_later > 0) & (end - (start + start_later) == elapsed) & (end - start != elapsed)
    start = np.where(other_start, start + start_later, start)
    other_end = (end_later > 0) & (end + end_later - start == elapsed) & (end - start != elapsed)
    end = np.where(other_end, end + end_later, end)
    early = (start_later > 0) & (start < submit)
    start = np.where(early & (start + start_later >= submit), start + start_later, start)
    return start, np.where((end_later > 0) & (end < start), end + end_later, end)
