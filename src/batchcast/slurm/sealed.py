# SPDX-License-Identifier: Apache-2.0
"""Queries to squeue and sacct with secret separators, so that users cannot forge answers by texts in their jobs.

Other users can read a running program's arguments in /proc, but not its environment. squeue reads the names of its
columns, with a secret mark after each, from the variable SQUEUE_FORMAT2. sacct takes its delimiter only as an argument,
so a user could copy it into a job's text while sacct runs. But sacct reads the format of times from the variable
SLURM_TIME_FORMAT. So each record is requested between two times that end in a secret seal, and a record with a wrong
number of columns is refused.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

SEAL_BYTES = 6
"""Number of random bytes of a seal, which has 8 characters. sacct prints at most 19 characters of a time, and the
seconds since 1970 take 10 of them.
"""
_SEALED = "Submit"
"""The column at the beginning and at the end of a record, because every job and every step has a submit time."""


class Question(NamedTuple):
    """A command to run: arguments, secret environment variables, and the seal of its records (empty: no seal)."""

    argv: list[str]
    environment: dict[str, str]
    seal: str


def sealed(command: Sequence[str], placeholder: str, mark: str) -> Question:
    """Return the command with a secret mark in place of `{mark}`, and the secret environment variables.

    >>> sealed(["squeue", "--Format=JobID:@"], "@", "~1~")
    Question(argv=['squeue'], environment={'SQUEUE_FORMAT2': 'JobID:~1~'}, seal='')
    """
    argv, environment, seal = [], {}, ""
    program = Path(command[0]).name
    if program == "sacct" and f"--delimiter={placeholder}" in command:
        seal = secrets.token_urlsafe(SEAL_BYTES)
        environment["SLURM_TIME_FORMAT"] = f"%s{seal}"
    for word in command:
        name, _, value = word.partition("=")
        if program == "squeue" and name == "--Format":
            environment["SQUEUE_FORMAT2"] = value.replace(placeholder, mark)
        elif seal and name == "--format":
            argv.append(f"--format={_SEALED},{value},{_SEALED}")
        else:
            argv.append(word.replace(placeholder, mark))
    return Question(argv, environment, seal)


def opened(text: str, mark: str, question: Question) -> tuple[str, int]:
    """Return the records of a sealed answer in the requested form, and the number of refused records.

    A record is refused if its number of values differs from the number of columns, because then a text of the job
    contains the mark. If an answer has no seal, every mark is removed, so that a text of a job cannot pass as a record.

    >>> question = Question(["--format=Submit,JobID,JobName,Submit"], {}, "s")
    >>> opened("5s@1@x@5s@\\n6s@2@y@9@\\n9@z@6s@\\n7s@3@z@7s@\\n", "@", question)
    ('1@x@\\n3@z@\\n', 1)
    """
    if not question.seal:
        return text, 0
    end = re.escape(question.seal + mark)
    columns = next(word.count(",") + 1 for word in question.argv if word.startswith("--format="))
    rows = re.split(rf"(?<={end})\n(?=\d+{end})", text.removesuffix("\n"))
    begin = re.search(rf"(?:\A|\n)(?=\d+{end})", rows[0])  # warnings may come before the first record
    if begin is None:
        return text.replace(mark, " "), 0
    rows[0] = rows[0][begin.end() :]
    good = []
    for row in rows:
        values = row.split(mark)
        if len(values) == columns + 1 and values[-1] == "" and values[-2].endswith(question.seal):
            plain = (value.removesuffix(question.seal) for value in values[1:-2])
            good.append("".join(f"{value}{mark}" for value in plain) + "\n")
    return "".join(good), len(rows) - len(good)
