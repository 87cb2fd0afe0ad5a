# SPDX-License-Identifier: Apache-2.0
"""The types of a job: `JobRequest` (known at submission) and `JobRecord` (with wait, run time and status).

Predictors receive only a `JobRequest`. Only event sources (replay, simulation, live collector) have a `JobRecord`. This
module also translates the final states of jobs between SWF numbers, sacct's words and batchcast's words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import nan
from typing import Any, NamedTuple

from .columns import DECLARED, KNOWN_AT_SUBMISSION

Name = int | str | None
TOLD_SUBMIT, DELIVERED_START, DELIVERED_GONE = 1, 2, 4
"""Bits of a live job's field `told`: which events of the job the predictors have already received. The store saves
these bits."""
NO_EXTRA: Mapping[str, Any] = {}
_DIGITS = re.compile(r"\d+")


def name_stem(name: Any) -> Any:
    """Replace the digits in a job's name, so that `wing_012` and `wing_013` are equal; None if there is no name.

    >>> name_stem("wing_012"), name_stem(None)
    ('wing_#', None)
    """
    return _DIGITS.sub("#", name) if isinstance(name, str) else None


class JobRequest(NamedTuple):
    """The part of a job that is known when the job is submitted.

    A request has no run time, wait or end time, so a predictor that receives only requests cannot use the future.

    Attributes
    ----------
    row
        Position of the job in log order (submit time, then job id, then row), or a running number on a live cluster.
        The row identifies the job and contains no information about later events.
    job_id
        The batch system's id of the job.
    submit_time
        Submit time, in seconds on the log's clock.
    procs
        Number of processors: requested, or allocated if the request is unknown.
    req_time
        The time limit, in seconds.
    req_mem_kib
        Requested memory, in KiB.
    extra
        Other columns that are known at submission: declared columns without an attribute in this class, and undeclared
        columns that the user marked as known at submission.

    Notes
    -----
    The remaining attributes have the meaning of the columns of the same name in `columns.py`. Unknown numbers are NaN
    and unknown names are None.
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
_UNKNOWN: dict[str, Any] = {name: nan if DECLARED[name].kind == "number" else None for name in ATTRIBUTES}
BEYOND = tuple(name for name in DECLARED if name in KNOWN_AT_SUBMISSION and name not in ATTRIBUTES)
"""Declared columns that are known at submission and have no attribute in `JobRequest`; they go to `extra`."""


def as_submitted(row: int, values: Mapping[str, Any], *, procs: float) -> JobRequest:
    """Build the `JobRequest` of one job from a mapping of column names to values.

    Values that become known after submission are ignored.

    >>> as_submitted(0, {"job_id": 7, "submit_time": 5.0, "run_time": 9.0, "req_gpus": 2.0}, procs=1.0).req_gpus
    2.0
    """
    attributes = {name: unknown if values.get(name) is None else values[name] for name, unknown in _UNKNOWN.items()}
    # The names of extra columns come from BEYOND and not from `values`, so that all requests share the strings and
    # pickles are small.
    extra = {name: values[name] for name in BEYOND if values.get(name) is not None}
    return JobRequest(row=row, procs=procs, **attributes, extra=extra or NO_EXTRA)


class JobRecord(NamedTuple):
    """A job request together with its outcome."""

    # The job's request: all data known at submission. The request's attributes and extra columns can also be read from
    # the record itself.
    request: JobRequest
    wait_time: float  # Queue wait, in seconds. NaN means unknown.
    run_time: float  # Run time, in seconds. NaN means that the job never ran, or that the run time is unknown.
    status: Name = None  # The final status of the job, as one of batchcast's status words. None means unknown.

    def __getattr__(self, name: str) -> Any:
        """Read an attribute of the request (`job.user_id` is `job.request.user_id`) or an extra column."""
        request = self.request
        if name in JobRequest._fields:
            return getattr(request, name)
        if name in request.extra:
            return request.extra[name]
        names = ", ".join((*self._fields[1:], *JobRequest._fields))
        raise AttributeError(f"a job has no attribute {name!r} (accepted: {names})")

    @property
    def start_time(self) -> float:
        """Start time, in seconds on the log's clock: submit time + wait."""
        return self.request.submit_time + self.wait_time

    @property
    def end_time(self) -> float:
        """End time, in seconds on the log's clock: submit time + wait + run time."""
        return self.request.submit_time + self.wait_time + self.run_time

    @property
    def response_time(self) -> float:
        """Response time, in seconds: wait + run time."""
        return self.wait_time + self.run_time


SWF_WORDS: dict[int, str] = dict(
    enumerate(("failed", "completed", "partial", "partial_completed", "partial_failed", "cancelled"))
)
"""Status words by SWF status number (field 11). 2, 3 and 4 mark the parts of a checkpointed job; -1 means unknown."""

SWF_NUMBERS: dict[str, int] = {
    **{word: number for number, word in SWF_WORDS.items()},
    **dict.fromkeys(("timeout", "node_fail", "out_of_memory", "boot_fail", "deadline"), 0),
    **dict.fromkeys(("launch_failed", "reconfig_fail", "preempted"), 0),
    "requeued": 2,
    "revoked": 5,
}
"""The nearest SWF status number of each word. SWF has no number for other words (pending, running, ...)."""

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
    """Translate an SWF status number to a status word: None for a negative number, `swf_N` for a number that SWF does
    not define.

    >>> status_from_swf(5), status_from_swf(-1), status_from_swf(9)
    ('cancelled', None, 'swf_9')
    """
    return None if number < 0 else SWF_WORDS.get(number, f"swf_{number}")


def status_to_swf(status: str | None) -> int:
    """Translate a status word to the nearest SWF status number; -1 if no number fits.

    >>> status_to_swf("timeout"), status_to_swf("swf_9"), status_to_swf(None)
    (0, 9, -1)
    """
    if status is not None and re.fullmatch(r"swf_\d+", status):
        return int(status[4:])
    return SWF_NUMBERS.get(status or "", -1)


def status_from_sacct(state: str) -> str | None:
    """Translate a long or short job state that sacct printed to a status word; None for no state and for an unknown
    state.

    >>> status_from_sacct("CANCELLED by 1000"), status_from_sacct("OUT_OF_ME+"), status_from_sacct("TO")
    ('cancelled', 'out_of_memory', 'timeout')
    """
    # sacct truncates a state to the width of its column and appends `+`. A truncated state is matched by its prefix.
    match = _STATE.match(state.strip())
    if match is None:
        return None
    word = match[0].lower()
    if word in ("unknown", "none"):
        return None
    if state.strip()[match.end() : match.end() + 1] == "+":  # sacct truncated the state to the width of its column
        return next((full for full in sorted(SWF_NUMBERS) if full.startswith(word)), word)
    return _SHORT_STATES.get(word, word)


def is_slurm_state(state: str) -> bool:
    """Whether a text is a Slurm job state as sacct prints it.

    An empty text and the words for an unknown state also count.

    >>> is_slurm_state("CANCELLED by 1000"), is_slurm_state("OUT_OF_ME+"), is_slurm_state("FAIL"), is_slurm_state("")
    (True, True, False, True)
    """
    word = status_from_sacct(state)
    return not state.strip() or word in _SLURM_STATES or state.strip().lower() in ("unknown", "none", "n/a")


def status_words(text: str) -> frozenset[str]:
    """Return the status words that a user's filter selects: a status word, a Slurm state, or an SWF status number.

    >>> sorted(status_words("1")), sorted(status_words("TIMEOUT"))
    (['completed'], ['timeout'])
    """
    word = text.strip().lower()
    if re.fullmatch(r"\d+", word):
        return frozenset({name for name, number in SWF_NUMBERS.items() if number == int(word)} or {f"swf_{word}"})
    return frozenset({status_from_sacct(word) or word})
