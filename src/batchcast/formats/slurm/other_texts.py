# SPDX-License-Identifier: Apache-2.0
"""Recognise texts of Slurm that contain jobs but cannot be read as a log, and say what to use instead."""

from __future__ import annotations

import re
from datetime import datetime

from ...job import is_slurm_state
from .sacct_forms import check_of
from .sacct_layout import COMMAND, DELIMITERS

_FILETXT = re.compile(r"JobId=\d+ UserId=\S+ GroupId=\S+ Name=")
_SHOW_JOB = re.compile(r"JobId=\d+ (ArrayJobId=|HetJobId=|JobName=)")


def named_text(line: str) -> tuple[str, str] | None:
    """Recognise a text by its first line.

    Parameters
    ----------
    line
        The first line of the text.

    Returns
    -------
    tuple of str, or None
        What the text is, and how to get a readable log instead. None for other texts.

    Examples
    --------
    >>> named_text("7|ada|COMPLETED|2026-03-01T10:00:00|2026-03-01T10:10:00")[0]
    'a sacct dump without its header line'
    >>> named_text("JobId=7 UserId=ada(1001) GroupId=ada(1001) Name=relax JobState=COMPLETED")[0]
    "the file of Slurm's plugin jobcomp/filetxt, which lacks time limits and complete requests"
    """
    if _FILETXT.match(line):
        return (
            "the file of Slurm's plugin jobcomp/filetxt, which lacks time limits and complete requests",
            f"if slurmdbd runs, use the accounting records: {COMMAND}",
        )
    if _SHOW_JOB.match(line):
        return "the output of `scontrol show job`, which has only current jobs", COMMAND
    if any(_is_record(line.strip().split(delimiter)) for delimiter in DELIMITERS):
        return "a sacct dump without its header line", f"leave out -n (--noheader), which removes it: {COMMAND}"
    return None


def _is_record(fields: list[str]) -> bool:
    """Whether the fields look like a job in sacct's notation: an id, a state, and a time written as a date."""
    is_job = check_of("jobid")
    words = [field.strip('"') for field in fields]
    states = [word.split(" ")[0] for word in words]
    has_state = any(word.isupper() and len(word) > 2 and is_slurm_state(word) for word in states)
    return has_state and any(map(_is_date, words)) and is_job is not None and any(map(is_job, words))


def _is_date(text: str) -> bool:
    """Whether a text is an ISO 8601 date with a time."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return "T" in text
