# SPDX-License-Identifier: Apache-2.0
"""A log that can be shared.

Names replaced by tokens of a keyed hash, times kept or moved, the rest kept or dropped; and where the key is kept.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..columns import COLUMNS
from ..errors import InputError, UsageError
from ..table import LogInfo, Nominal, Trace, Values

SHORTEST = 16
_BYTES = 32


def key_of(path: str | Path) -> tuple[bytes, list[str]]:
    """The key in a file, and what should be said: that it was made, or that others may read it.

    A file that is not there is made with 256 random bits as hexadecimal digits, mode 0600. Raises InputError.
    """
    target = Path(path)
    try:
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _read(target)
    except OSError as error:
        raise InputError(f"{target}: the key cannot be written: {error.strerror or error}") from None
    text = secrets.token_hex(_BYTES)
    with os.fdopen(handle, "w") as file:
        file.write(text + "\n")
    sentence = (
        f"a new key was made: {target} (only you may read it; keep it to get the same tokens again, share it never)"
    )
    return text.encode(), [sentence]


def key_in_environment(name: str) -> bytes:
    """The key in an environment variable; UsageError when it is not set or too short."""
    text = os.environ.get(name, "").strip()
    if len(text) < SHORTEST:
        words = f"of {len(text)} characters" if text else "that is not set"
        raise UsageError(f"--key-env: {name} is a variable {words} (accepted: a key of {SHORTEST} characters or more)")
    return text.encode()


def _read(target: Path) -> tuple[bytes, list[str]]:
    try:
        text = target.read_text(encoding="utf-8").strip()
        mode = target.stat().st_mode & 0o077
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{target}: the key cannot be read: {error}") from None
    if len(text) < SHORTEST:
        raise InputError(
            f"{target}: holds no key, only {len(text)} characters (accepted: {SHORTEST} or more)",
            hint="name a file that is not there, and a key is made",
        )
    return text.encode(), [f"others may read the key: chmod 600 {target}"] if mode else []


TOKENS = {
    "user_id": "user", "group_id": "group", "account": "account", "app_id": "app", "queue_id": "queue",
    "partition_id": "partition", "qos": "qos", "job_name": "name", "work_dir": "path",
}  # fmt: skip
"""How the token of a column begins."""
_INSTANTS = ("submit_time", "eligible_time")
_MEASURED = ("wait_time", "run_time", "avg_cpu_time", "think_time")
WEEK = 7 * 86400.0
_WEEKS = 52 * 8
_DIGITS = 12
_PLAIN_ID = re.compile(r"\d+([_+]\d+)?")


@dataclass(frozen=True, slots=True)
class Treatment:
    """What became of one column: `replaced`, `kept`, `moved`, `renumbered` or `dropped`, and why or how."""

    column: str
    treatment: str
    distinct: int
    why: str


def anonymize(
    trace: Trace,
    key: bytes,
    *,
    shift: float = 0.0,
    step: float = 0.0,
    ids: str = "keep",
    keep: Sequence[str] = (),
    whole: bool = False,
) -> tuple[Trace, list[Treatment]]:
    """The trace without names, and what became of each column. The same key gives the same tokens in every log.

    A token is the column's word and 48 bits of HMAC-SHA256 (RFC 2104) of the column's name and the value; of a value
    that is a number, and with `whole` (for SWF) of every value, those bits as a number. Numbers of batchcast's own
    columns are measurements and stay; names of every column are replaced, the status excepted; extra columns of numbers
    are dropped, since what they are is not known; a column in `keep` stays as it is. `shift` moves every instant by so
    many seconds. With a `step`, instants are rounded down to multiples of so many seconds, and measured times up: so
    fewer rows are found by the times of a job (`linkable`). With `ids="renumber"` job numbers count from 1 in log
    order (tasks of an array stay together); job ids that hold text are replaced in any case. Header, notes, file name
    and checksum are left out. Raises UsageError for a column in `keep` that is not there, InputError when two names get
    one token. O(rows).

    >>> log = Trace.from_arrays({"submit_time": [0.0, 5.0], "user_id": ["ada", "bob"], "run_time": [1.0, 2.0]})
    >>> made, _ = anonymize(log, b"0" * 32); made.nominal("user_id").decode(), made.run_time.tolist()
    (['user_574cc7141791', 'user_aaf95e7aceb4'], [1.0, 2.0])
    """
    if ids not in ("keep", "renumber"):
        raise UsageError(f"--ids: no {ids!r} (accepted: keep, renumber)")
    for name in keep:
        if name not in trace.names:
            raise UsageError(f"--keep: the log has no column {name!r} (accepted: {', '.join(trace.names)})")
    columns: dict[str, Values] = {}
    treatments: list[Treatment] = []
    for name in trace.names:
        values, treatment, why = _treat(trace, name, key, shift, step, ids, name in keep, whole)
        if values is not None:
            columns[name] = values
        treatments.append(Treatment(name, treatment, _distinct(trace.column(name)), why))
    return Trace(columns, _info(trace.info, shift, keep)), treatments


def linkable(trace: Trace) -> tuple[float, float]:
    """The share of jobs that submit time and run time single out in this log, and of users with at least one such job.

    Whoever knows both times of one job, from a mail or a log file, finds its row; the row's token then names all other
    jobs of the same user. NaN where the log has no job or no user.

    >>> columns = {"submit_time": [0.0, 0.0, 5.0], "run_time": [1.0, 1.0, 1.0], "user_id": ["a", "b", "b"]}
    >>> alone, users = linkable(Trace.from_arrays(columns)); round(alone, 2), users
    (0.33, 0.5)
    """
    known = ~np.isnan(trace.run_time)
    _, which, count = np.unique(
        trace.submit_time[known] + 1j * trace.run_time[known], return_inverse=True, return_counts=True
    )
    alone = count[which] == 1
    users = trace.nominal("user_id").codes[known] if "user_id" in trace.names else np.zeros(0, np.int32)
    of_users = len(set(users[alone].tolist()) - {-1}) if len(users) else 0
    everybody = len(set(users.tolist()) - {-1})
    return (
        float(alone.mean()) if len(alone) else math.nan,
        of_users / everybody if everybody else math.nan,
    )


def token(key: bytes, column: str, value: int | str) -> int:
    """48 bits of the keyed hash of a value of a column; a number and its text are one value.

    >>> f"{token(b'k', 'user_id', 'ada'):012x}", token(b"k", "user_id", 7) == token(b"k", "user_id", "7")
    ('da67dabc951f', True)
    """
    digest = hmac.new(key, f"{column}\0{value}".encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
    return int(digest[:_DIGITS], 16)


def shift_of(key: bytes) -> float:
    """The shift that goes with a key: one to eight years back, whole weeks, so that days and hours stay what they are.

    >>> shift_of(b"k") % WEEK, -8 * 53 * WEEK < shift_of(b"k") < -51 * WEEK
    (0.0, True)
    """
    return -(52 + token(key, "", "shift") % (_WEEKS - 52)) * WEEK


def _treat(
    trace: Trace, name: str, key: bytes, shift: float, step: float, ids: str, keep: bool, whole: bool
) -> tuple[Values | None, str, str]:
    """A column's new values, what was done, and why."""
    values = trace.column(name)
    if keep:
        return values, "kept", "as told"
    if name == "job_id":
        return _job_ids(trace.job_id, key, ids)
    if isinstance(values, Nominal):
        if name == "status":
            return values, "kept", "how the job ended"
        return _replaced(values, name, key, whole), "replaced", "names: a keyed hash"
    if name not in COLUMNS:
        return None, "dropped", f"numbers of an unknown meaning (--keep {name} keeps them)"
    if name == "prev_job_id" and ids == "renumber":
        return None, "dropped", "job numbers, and those are new"
    if name in _INSTANTS and (shift or step):
        values = values + shift if trace.info.unix_start == 0 else values  # else the clock's own start moves
        values = np.floor(values / step) * step if step else values
        done = [f"by {shift:.0f} s"] * bool(shift) + [f"down to multiples of {step:.0f} s"] * bool(step)
        return values, " and ".join(["moved"] * bool(shift) + ["rounded"] * bool(step)), f"instants, {', '.join(done)}"
    if name in _MEASURED and step:
        return np.ceil(values / step) * step, "rounded", f"up to multiples of {step:.0f} s"
    return values, "kept", COLUMNS[name].meaning


def _replaced(values: Nominal, column: str, key: bytes, whole: bool) -> Nominal:
    """Codes stay, categories become tokens, in sorted order; names nobody uses are gone."""
    used = np.unique(values.codes)
    used = used[used >= 0]
    word = TOKENS.get(column, column)
    tokens: list[int | str] = []
    for code in used.tolist():
        name = values.categories[code]
        number = token(key, column, name)
        tokens.append(number if whole or isinstance(name, int) else f"{word}_{number:0{_DIGITS}x}")
    if len(set(tokens)) < len(tokens):
        raise InputError(f"two names of {column} get the same token", hint="another key")
    order = sorted(range(len(tokens)), key=lambda k: (isinstance(tokens[k], str), tokens[k]))
    new = np.full(len(values.categories) + 1, -1, dtype=np.int32)
    new[used[order]] = np.arange(len(order), dtype=np.int32)
    return Nominal(new[values.codes], tuple(tokens[k] for k in order))


def _job_ids(values: np.ndarray, key: bytes, ids: str) -> tuple[np.ndarray, str, str]:
    if ids == "keep":
        if values.dtype.kind in "iu" or all(_PLAIN_ID.fullmatch(text) for text in values.tolist()):
            return values, "kept", "numbers (--ids renumber replaces them)"
        texts = [
            text if _PLAIN_ID.fullmatch(text) else f"job_{token(key, 'job_id', text):0{_DIGITS}x}"
            for text in values.tolist()
        ]
        return np.array(texts), "replaced", "numbers kept, other ids: a keyed hash"
    numbers: dict[str, int] = {}
    new_ids = []
    for text in map(str, values.tolist()):
        match = re.fullmatch(r"(\d+)([_+]\d+)?", text)
        base, task = (match[1], match[2] or "") if match else (text, "")
        new_ids.append(f"{numbers.setdefault(base, len(numbers) + 1)}{task}")
    is_whole = all(text.isdecimal() for text in new_ids)
    return np.array(new_ids, dtype=np.int64 if is_whole else str), "renumbered", "from 1 in log order"


def _info(info: LogInfo, shift: float, keep: Sequence[str]) -> LogInfo:
    """Only what says how to read the numbers: clock, zone, machine, and names of columns that are kept."""
    return LogInfo(
        source="(anonymized)",
        format=info.format,
        unix_start=info.unix_start + shift if info.unix_start else 0.0,
        timezone=info.timezone,
        timezone_source=info.timezone_source if info.timezone_source in ("header TimeZone", "default") else "the log",
        max_procs=info.max_procs,
        max_procs_source=info.max_procs_source if info.max_procs_source in ("header", "peak") else "the log",
        max_nodes=info.max_nodes,
        names={column: names for column, names in info.names.items() if column in keep},
    )


def _distinct(values: Values) -> int:
    if isinstance(values, Nominal):
        return len(np.unique(values.codes[values.codes >= 0]))
    return len(np.unique(values[~np.isnan(values)] if values.dtype.kind == "f" else values))
