# SPDX-License-Identifier: Apache-2.0
"""A job as it is known at submission, and as it is known afterwards, which only a clock holds; and how jobs end."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import nan
from typing import Any, NamedTuple

from .columns import DECLARED, KNOWN_AT_SUBMISSION

Name = int | str | None
NO_EXTRA: Mapping[str, Any] = {}


class JobRequest(NamedTuple):
    """What is known when a job is submitted; it has no run time, wait or end, so nothing built on it can leak them.

    `row` is the job's place in log order (submit time, then job id, then row), or a running number on a live
    cluster: a name for the job, never a hint of its future. `procs` is what the log's reading rule gave (requested,
    else allocated). Numbers are NaN and names None when unknown. `extra` holds the other columns that are known at
    submission: declared ones without an attribute here, and those of a user's table that the user vouched for.
    """

    row: int
    job_id: int | str
    submit_time: float
    procs: float
    req_time: float
    req_mem_kib: float
    user_id: Name = None
    group_id: Name = None
    app_id: Name = None
    queue_id: Name = None
    partition_id: Name = None
    account: Name = None
    qos: Name = None
    job_name: Name = None
    work_dir: Name = None
    req_procs: float = nan
    req_nodes: float = nan
    req_gpus: float = nan
    extra: Mapping[str, Any] = NO_EXTRA


ATTRIBUTES = tuple(name for name in JobRequest._fields if name not in ("row", "procs", "extra"))
BEYOND = tuple(name for name in DECLARED if name in KNOWN_AT_SUBMISSION and name not in ATTRIBUTES)
"""What else is declared and known then: `JobRequest.extra`."""


def as_submitted(row: int, values: Mapping[str, Any], *, procs: float) -> JobRequest:
    """The request in a record by column names, whatever else the record holds: what is known later stays behind.

    Parameters
    ----------
    row
        The job's place in log order, or a running number.
    values
        The record: column name to value; absent or None is unknown.
    procs
        Processors by the reading rule in force; NaN is unknown.

    >>> as_submitted(0, {"job_id": 7, "submit_time": 5.0, "run_time": 9.0, "req_gpus": 2.0}, procs=1.0).req_gpus
    2.0
    """
    known = {name: _value(name, values.get(name)) for name in ATTRIBUTES}
    extra = {name: values[name] for name in BEYOND if values.get(name) is not None}  # names of ours: they are pickled
    return JobRequest(row=row, procs=procs, **known, extra=extra or NO_EXTRA)


def _value(name: str, value: Any) -> Any:
    return nan if value is None and name in DECLARED and DECLARED[name].kind == "number" else value


class JobRecord(NamedTuple):
    """A request with what came of it. `run_time` is NaN for a job that never ran, `wait_time` NaN where unknown."""

    request: JobRequest
    wait_time: float
    run_time: float
    status: Name = None

    def __getattr__(self, name: str) -> Any:
        """What was known at the submission: `job.user_id` is `job.request.user_id`, `job.qos` one of its extras."""
        request = self.request
        if name in JobRequest._fields:
            return getattr(request, name)
        if name in request.extra:
            return request.extra[name]
        raise AttributeError(f"a job has no {name!r} (it has: {', '.join((*self._fields[1:], *JobRequest._fields))})")

    @property
    def start_time(self) -> float:
        """submit + wait, seconds on the log's clock."""
        return self.request.submit_time + self.wait_time

    @property
    def end_time(self) -> float:
        """submit + wait + run, seconds on the log's clock."""
        return self.request.submit_time + self.wait_time + self.run_time

    @property
    def response_time(self) -> float:
        """wait + run, seconds."""
        return self.wait_time + self.run_time


SWF_WORDS: dict[int, str] = {
    0: "failed",
    1: "completed",
    2: "partial",
    3: "partial_completed",
    4: "partial_failed",
    5: "cancelled",
}
"""SWF field 11 by number; 2, 3 and 4 are pieces of a job that was checkpointed; -1 is unknown."""

SWF_NUMBERS: dict[str, int] = {
    **{word: number for number, word in SWF_WORDS.items()},
    "timeout": 0,
    "node_fail": 0,
    "out_of_memory": 0,
    "boot_fail": 0,
    "deadline": 0,
    "launch_failed": 0,
    "reconfig_fail": 0,
    "preempted": 0,
    "requeued": 2,
    "revoked": 5,
}
"""The nearest SWF number of every word; a word that is not here (pending, running, ...) is unknown in SWF."""

_SHORT_STATES = {
    "bf": "boot_fail", "ca": "cancelled", "cd": "completed", "cf": "configuring", "cg": "completing", "dl": "deadline",
    "f": "failed", "nf": "node_fail", "oom": "out_of_memory", "pd": "pending", "pr": "preempted", "r": "running",
    "rq": "requeued", "rs": "resizing", "rv": "revoked", "s": "suspended", "to": "timeout",
}  # fmt: skip
_SLURM_STATES = frozenset({
    *SWF_NUMBERS, *_SHORT_STATES.values(), "running", "pending", "suspended", "stopped", "signaling", "stage_out",
    "special_exit", "requeue_hold", "requeue_fed", "resv_del_hold", "power_up_node", "update_db", "expediting",
}) - {"partial", "partial_completed", "partial_failed"}  # fmt: skip
_STATE = re.compile(r"[A-Za-z]+(?:_[A-Za-z]+)*")


def status_from_swf(number: int) -> str | None:
    """The word of an SWF status; None when unknown, `swf_N` for a number the format does not define.

    >>> status_from_swf(5), status_from_swf(-1), status_from_swf(9)
    ('cancelled', None, 'swf_9')
    """
    return None if number < 0 else SWF_WORDS.get(number, f"swf_{number}")


def status_to_swf(word: str | None) -> int:
    """The SWF number nearest to a word, -1 when there is none.

    >>> status_to_swf("timeout"), status_to_swf("swf_9"), status_to_swf(None)
    (0, 9, -1)
    """
    if word is not None and re.fullmatch(r"swf_\d+", word):
        return int(word[4:])
    return SWF_NUMBERS.get(word or "", -1)


def status_from_sacct(state: str) -> str | None:
    """The word of one of sacct's states, long or short form; what follows it (`CANCELLED by 1000`, `+`) is cut off.

    >>> status_from_sacct("CANCELLED by 1000"), status_from_sacct("OUT_OF_ME+"), status_from_sacct("TO")
    ('cancelled', 'out_of_memory', 'timeout')
    """
    match = _STATE.match(state.strip())
    if match is None:
        return None
    word = match[0].lower()
    if word in ("unknown", "none"):
        return None
    if state.strip()[match.end() : match.end() + 1] == "+":  # sacct cuts a state at its column's width
        return next((full for full in sorted(SWF_NUMBERS) if full.startswith(word)), word)
    return _SHORT_STATES.get(word, word)


def is_slurm_state(state: str) -> bool:
    """Whether a text is one of Slurm's states as sacct prints it, or says that the state is unknown.

    >>> is_slurm_state("CANCELLED by 1000"), is_slurm_state("OUT_OF_ME+"), is_slurm_state("FAIL"), is_slurm_state("")
    (True, True, False, True)
    """
    word = status_from_sacct(state)
    return not state.strip() or word in _SLURM_STATES or state.strip().lower() in ("unknown", "none", "n/a")


def status_words(text: str) -> frozenset[str]:
    """The words a user means by one: itself, or for an SWF number every word that number covers.

    >>> sorted(status_words("1")), sorted(status_words("TIMEOUT"))
    (['completed'], ['timeout'])
    """
    word = text.strip().lower()
    if re.fullmatch(r"\d+", word):
        covered = {name for name, number in SWF_NUMBERS.items() if number == int(word)}
        return frozenset(covered or {f"swf_{word}"})
    return frozenset({status_from_sacct(word) or word})
