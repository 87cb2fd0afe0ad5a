# SPDX-License-Identifier: Apache-2.0
"""Texts of Slurm that hold jobs and cannot be read as a log, told by their first line, with what to do instead."""

from __future__ import annotations

import re
from datetime import datetime

from ...job import is_slurm_state
from .sacct_forms import check_of
from .sacct_layout import COMMAND, DELIMITERS

_FILETXT = re.compile(r"JobId=\d+ UserId=\S+ GroupId=\S+ Name=")
_SHOW_JOB = re.compile(r"JobId=\d+ (ArrayJobId=|HetJobId=|JobName=)")


def named_text(line: str) -> tuple[str, str] | None:
    """What a text is by its first line, and what can be read instead; None for any other text.

    >>> named_text("7|ada|COMPLETED|2026-03-01T10:00:00|2026-03-01T10:10:00")[0]
    'a sacct dump without its header line'
    >>> named_text("JobId=7 UserId=ada(1001) GroupId=ada(1001) Name=relax JobState=COMPLETED")[0]
    "the file of Slurm's plugin jobcomp/filetxt, which says neither limits nor requests in full"
    """
    if _FILETXT.match(line):
        return (
            "the file of Slurm's plugin jobcomp/filetxt, which says neither limits nor requests in full",
            f"accounting has them, if slurmdbd runs: {COMMAND}",
        )
    if _SHOW_JOB.match(line):
        return "what `scontrol show job` prints, the jobs of this minute", COMMAND
    if any(_is_record(line.strip().split(delimiter)) for delimiter in DELIMITERS):
        return "a sacct dump without its header line", f"leave out -n (--noheader), which takes it away: {COMMAND}"
    return None


def _is_record(fields: list[str]) -> bool:
    """Whether fields are those of a job in sacct's forms: its number, a state, and a time that is written as a date."""
    is_job = check_of("jobid")
    words = [field.strip('"') for field in fields]
    states = [word.split(" ")[0] for word in words]
    has_state = any(word.isupper() and len(word) > 2 and is_slurm_state(word) for word in states)
    return has_state and any(map(_is_date, words)) and is_job is not None and any(map(is_job, words))


def _is_date(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return "T" in text
