"""Tests that a user who reads the delimiter in /proc and writes it into a job's text cannot forge a record."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from batchcast.formats.slurm.squeue import parse_marked
from batchcast.slurm.transport import MARK, Commands

FIELDS = ("JobID", "JobName", "User", "Start")
SACCT = """#!{python}
import os, sys
words = dict(word.lstrip("-").partition("=")[::2] for word in sys.argv[1:])
mark, fields = words["delimiter"], words["format"].split(",")
hostile = {hostile!r}.replace("@", mark)
print("sacct: warning: of a plug-in")
for number, name in (("1", "plain"), ("2", hostile), ("3", "two\\nlines|")):
    job = dict(JobID=number, JobName=name, User="ada")
    job |= {{of: os.environ["SLURM_TIME_FORMAT"].replace("%s", "1700000000") for of in ("Submit", "Start")}}
    print("".join(job[field] + mark for field in fields))
"""
SQUEUE = """#!{python}
import os, sys
print(len(sys.argv), os.environ["SQUEUE_FORMAT2"])
"""


def commands_with(folder: Path, name: str, text: str, **given: str) -> tuple[Commands, str]:
    program = folder / name
    program.write_text(text.format(python=sys.executable, **given))
    program.chmod(0o755)
    return Commands(), str(program)


@pytest.mark.parametrize(
    "hostile",
    [
        "a@b",
        "x@bob@1600000000@",  # the end of a record, as far as its columns are known
        "x@ada@1600000000@1600000000@\n1600000000@9@forged@bob@1600000000@1600000000@\n1600000000@2@x",
        "x@ada@1600000000s@1600000000s@\n1600000000s@9@forged@bob@1600000000s@1600000000s@\n1600000000s@2@x",
    ],
)
def test_a_job_whose_name_holds_the_delimiter_is_left_out_and_no_other(hostile: str, tmp_path: Path) -> None:
    commands, sacct = commands_with(tmp_path, "sacct", SACCT, hostile=hostile)
    answer = commands.ask((sacct, f"--delimiter={MARK}", "--format=" + ",".join(FIELDS)))
    jobs, broken = parse_marked(answer.text, answer.mark, FIELDS)
    assert [tuple(job.values()) for job in jobs] == [
        ("1", "plain", "ada", "1700000000"),
        ("3", "two\nlines|", "ada", "1700000000"),
    ]
    assert (broken, answer.refused) == (0, 1)


def test_an_answer_without_the_seal_is_no_answer(tmp_path: Path) -> None:
    text = SACCT.replace('os.environ["SLURM_TIME_FORMAT"]', '"%s"')
    commands, sacct = commands_with(tmp_path, "sacct", text, hostile="x")
    answer = commands.ask((sacct, f"--delimiter={MARK}", "--format=" + ",".join(FIELDS)))
    with pytest.raises(Exception, match="does not have the requested form"):
        parse_marked(answer.text, answer.mark, FIELDS)


def test_the_mark_of_squeue_is_in_no_argument(tmp_path: Path) -> None:
    commands, squeue = commands_with(tmp_path, "squeue", SQUEUE)
    answer = commands.ask((squeue, "--all", f"--Format=JobID:{MARK},Name:{MARK}"))
    assert answer.text.split() == ["2", f"JobID:{answer.mark},Name:{answer.mark}"]
