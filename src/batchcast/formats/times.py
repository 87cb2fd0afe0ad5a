"""From recorded starts, ends and states to run time and wait: who ran, who never did, who had not finished. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .ran import never_ran

UNFINISHED = (
    "pending", "running", "suspended", "configuring", "completing", "resizing", "signaling", "stage_out"
)  # fmt: skip
WITHDRAWN = ("cancelled", "deadline", "revoked", "preempted", "boot_fail", "launch_failed")
Stamps = tuple[np.ndarray, np.ndarray]
"""Epoch seconds, and how much later the second pass of a repeated hour is (`stamps.LocalClock`)."""


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

    `status` are codes of `words` (-1 unknown), `held` marks jobs known to have held something. The run is `elapsed`,
    else end - start. One that was withdrawn from the queue (a state that says so, no length, nothing held), that is
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
    unfinished, withdrawn, pending = (are(status, words, which) for which in (UNFINISHED, WITHDRAWN, ("pending",)))
    known = np.zeros(len(submit)) if no_start else begin  # no start recorded at all says nothing of any job
    never = never_ran(known, withdrawn & (length == 0) & ~held) | pending
    run = np.where(never | unfinished, np.nan, length)
    wait = np.where(never, np.where(unfinished, np.nan, stop - submit), begin - submit)
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
