# SPDX-License-Identifier: Apache-2.0
"""Anonymize a log so that it can be shared, and manage the secret key of the anonymization.

Names are replaced by tokens of a keyed hash, times are kept or shifted, and other columns are kept or dropped.
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
from ..errors import InputError, UsageError, check_word
from ..formats.chunks import as_ids
from ..table import LogInfo, Nominal, Trace, Values
from ..table.columns import INSTANTS
from .clean import distinct

SHORTEST = 16
_BYTES = 32


def key_of(path: str | Path) -> tuple[bytes, list[str]]:
    """Read the key from a file, or create the file (mode 0600) with a new random key of 256 bits; return also messages
    for the user."""
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
    advice = "only you can read it; keep it to get the same tokens again; never share it"
    return text.encode(), [f"a new key was created: {target} ({advice})"]


def key_in_environment(name: str) -> bytes:
    """Return the key in an environment variable; UsageError if it is not set or too short."""
    text = os.environ.get(name, "").strip()
    if len(text) < SHORTEST:
        problem = f"has only {len(text)} characters" if text else "is not set"
        raise UsageError(f"--key-env: the variable {name} {problem} (accepted: a key of {SHORTEST} characters or more)")
    return text.encode()


def _read(target: Path) -> tuple[bytes, list[str]]:
    """Return the key in an existing key file, and a message if others can read the file."""
    try:
        text = target.read_text(encoding="utf-8").strip()
        mode = target.stat().st_mode & 0o077
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{target}: the key cannot be read: {error}") from None
    if len(text) < SHORTEST:
        what = f"{target}: the key has only {len(text)} characters (accepted: {SHORTEST} or more)"
        raise InputError(what, hint="name a file that does not exist, and a new key is created in it")
    return text.encode(), [f"other users can read the key: chmod 600 {target}"] if mode else []


TOKENS = {
    "user_id": "user", "group_id": "group", "account": "account", "app_id": "app", "queue_id": "queue",
    "partition_id": "partition", "qos": "qos", "job_name": "name", "work_dir": "path",
}  # fmt: skip
"""Prefix of the tokens of each column."""
_MEASURED = ("wait_time", "run_time", "avg_cpu_time", "think_time")
WEEK = 7 * 86400.0
_WEEKS = 52 * 8
_DIGITS = 12
_PLAIN_ID = re.compile(r"(\d+)([_+]\d+)?")


@dataclass(frozen=True, slots=True)
class Treatment:
    """What the anonymization did with one column: `replaced`, `kept`, `moved`, `rounded`, `renumbered` or `dropped`,
    with an explanation."""

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
    numeric: bool = False,
) -> tuple[Trace, list[Treatment]]:
    """Replace the names in a log by tokens.

    The same key gives the same tokens in every log.

    >>> log = Trace.from_arrays({"submit_time": [0.0, 5.0], "user_id": ["ada", "bob"], "run_time": [1.0, 2.0]})
    >>> made, _ = anonymize(log, b"0" * 32); made.nominal("user_id").decode(), made.run_time.tolist()
    (['user_574cc7141791', 'user_aaf95e7aceb4'], [1.0, 2.0])
    """
    # With `step`, instants are rounded down and durations up to multiples of `step` seconds, so that fewer rows can be
    # identified by the times of a job (`linkable`). With `ids="renumber"`, job numbers count from 1 in log order, and
    # tasks of an array stay together; job ids that contain other text are always replaced.
    #
    # A token is the column's prefix and 48 bits of HMAC-SHA256 (RFC 2104) of the column's name and the value. For a
    # numeric name, the token is the 48 bits as a number. Names of all columns are replaced, except the status. Numbers
    # in declared columns are measurements and stay. Numbers in extra columns are dropped, because their meaning is
    # unknown.
    check_word("ids", ids, ("keep", "renumber"))
    for name in keep:
        if name not in trace.names:
            raise UsageError(f"--keep: the log has no column {name!r} (accepted: {', '.join(trace.names)})")
    columns: dict[str, Values] = {}
    treatments: list[Treatment] = []
    for name in trace.names:
        values, treatment, why = _treat(trace, name, key, shift, step, ids, name in keep, numeric)
        if values is not None:
            columns[name] = values
        treatments.append(Treatment(name, treatment, distinct(trace.column(name)), why))
    return Trace(columns, _info(trace.info, shift, keep)), treatments


def linkable(trace: Trace) -> tuple[float, float]:
    """Return the fraction of the jobs whose submit time and run time are unique in the log, and the fraction of the
    users with such a job.

    Somebody who knows submit time and run time of one job, for example from an e-mail, can find the job's row. The
    row's token then identifies all other jobs of the job's user.

    >>> columns = {"submit_time": [0.0, 0.0, 5.0], "run_time": [1.0, 1.0, 1.0], "user_id": ["a", "b", "b"]}
    >>> alone, users = linkable(Trace.from_arrays(columns)); round(alone, 2), users
    (0.33, 0.5)
    """
    known = ~np.isnan(trace.run_time)
    times = trace.submit_time[known] + 1j * trace.run_time[known]
    _, which, count = np.unique(times, return_inverse=True, return_counts=True)
    alone = count[which] == 1
    users = trace.nominal("user_id").codes[known]
    everybody, linked = (len(set(codes.tolist()) - {-1}) for codes in (users, users[alone]))
    return float(alone.mean()) if len(alone) else math.nan, linked / everybody if everybody else math.nan


def token(key: bytes, column: str, value: int | str) -> int:
    """Return 48 bits of the keyed hash of a value of a column. A number and its text have the same hash.

    >>> f"{token(b'k', 'user_id', 'ada'):012x}", token(b"k", "user_id", 7) == token(b"k", "user_id", "7")
    ('da67dabc951f', True)
    """
    digest = hmac.new(key, f"{column}\0{value}".encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
    return int(digest[:_DIGITS], 16)


def shift_of(key: bytes) -> float:
    """Return the shift that belongs to a key, in seconds: one to eight years back, in whole weeks.

    Whole weeks keep the day of the week and the time of day.

    >>> shift_of(b"k") % WEEK, -8 * 53 * WEEK < shift_of(b"k") < -51 * WEEK
    (0.0, True)
    """
    return -(52 + token(key, "", "shift") % (_WEEKS - 52)) * WEEK


def _treat(
    trace: Trace, name: str, key: bytes, shift: float, step: float, ids: str, keep: bool, numeric: bool
) -> tuple[Values | None, str, str]:
    """Return a column's new values, the word for its treatment (see `Treatment`), and an explanation."""
    values = trace.column(name)
    if keep:
        return values, "kept", "as requested"
    if name == "job_id":
        return _job_ids(trace.job_id, key, ids)
    if isinstance(values, Nominal):
        if name == "status":
            return values, "kept", "how the job ended"
        return _replaced(values, name, key, numeric), "replaced", "names: a keyed hash"
    if name not in COLUMNS:
        return None, "dropped", f"numbers with an unknown meaning (--keep {name} keeps them)"
    if name == "prev_job_id" and ids == "renumber":
        return None, "dropped", "job numbers, which are replaced"
    if name in INSTANTS and (shift or step):
        values = values + shift if trace.info.unix_start == 0 else values  # if unix_start is not 0, _info shifts that
        values = np.floor(values / step) * step if step else values
        done = [f"by {shift:.0f} s"] * bool(shift) + [f"down to multiples of {step:.0f} s"] * bool(step)
        return values, " and ".join(["moved"] * bool(shift) + ["rounded"] * bool(step)), f"instants, {', '.join(done)}"
    if name in _MEASURED and step:
        return np.ceil(values / step) * step, "rounded", f"up to multiples of {step:.0f} s"
    return values, "kept", COLUMNS[name].meaning


def _replaced(values: Nominal, column: str, key: bytes, numeric: bool) -> Nominal:
    """Return the column with tokens as categories, in sorted order and without unused names."""
    word = TOKENS.get(column, column)
    tokens: dict[int, int | str] = {}
    for code in set(values.codes.tolist()) - {-1}:
        name = values.categories[code]
        number = token(key, column, name)
        tokens[code] = number if numeric or isinstance(name, int) else f"{word}_{number:0{_DIGITS}x}"
    if len(set(tokens.values())) < len(tokens):
        raise InputError(f"two names of {column} get the same token", hint="another key")
    return Nominal.recode(values.codes, [tokens.get(code) for code in range(len(values.categories))])


def _job_ids(values: np.ndarray, key: bytes, ids: str) -> tuple[np.ndarray, str, str]:
    """Return the job ids, what was done with them, and an explanation."""
    if ids == "keep":
        others = set() if values.dtype.kind in "iu" else {t for t in values.tolist() if not _PLAIN_ID.fullmatch(t)}
        if not others:
            return values, "kept", "numbers (--ids renumber replaces them)"
        hashed = {text: f"job_{token(key, 'job_id', text):0{_DIGITS}x}" for text in others}
        texts = [hashed.get(text, text) for text in values.tolist()]
        return np.array(texts), "replaced", "numbers kept, other ids: a keyed hash"
    numbers: dict[str, int] = {}
    new_ids = []
    for text in map(str, values.tolist()):
        match = _PLAIN_ID.fullmatch(text)
        base, task = (match[1], match[2] or "") if match else (text, "")
        new_ids.append(f"{numbers.setdefault(base, len(numbers) + 1)}{task}")
    return as_ids(new_ids), "renumbered", "from 1 in log order"


def _info(info: LogInfo, shift: float, keep: Sequence[str]) -> LogInfo:
    """Return the part of the provenance that is needed to interpret the numbers: clock, zone, machine, unit of
    memory, names of kept columns."""
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
        memory_per=info.memory_per,
    )
