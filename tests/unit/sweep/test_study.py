"""Tests that an invalid study is rejected with its line and the accepted words, and that a valid one is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchcast.errors import InputError
from batchcast.sweep import read_study, tasks_of

PLAIN = 'policies = ["easy", "fcfs"]\npredictors = ["requested", "last_2"]\n'
LOG = '[[log]]\npath = "a.swf"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("policies = [", "study.toml: not TOML"),
        (PLAIN, "log"),
        (PLAIN + "policys = 1\n" + LOG, "study.toml:3: no such key: 'policys' (accepted: log, name, seed"),
        (PLAIN + LOG + 'tz = "UTC"', "study.toml:5: no such key in [log]: 'tz' (accepted: path, name, clean"),
        (PLAIN + "replicates = -1\n" + LOG, "study.toml:3: replicates: '-1' (accepted: 0 or more)"),
        (PLAIN + 'replicates = "many"\n' + LOG, "study.toml:3: replicates: "),
        (PLAIN + "itself = false\n" + LOG, "nothing to simulate"),
        ('policies = ["easy"]\n' + LOG, "policies and predictors"),
        (PLAIN.replace("fcfs", "fifo") + LOG, "study.toml:1: no policy 'fifo' (accepted: fcfs, easy"),
        (PLAIN.replace("last_2", "last_3") + LOG, "study.toml:2: no runtime method 'last_3'"),
        (PLAIN.replace("last_2", "last_2:k=3") + LOG, "study.toml:2: last_2 has no parameter 'k'"),
        (
            PLAIN + 'against = ["easy"]\n' + LOG,
            "study.toml:1: against: 'easy' (accepted: easy, requested; easy, last_2",
        ),
        (
            PLAIN + LOG + '[settings]\nwidth = "cut"',
            "study.toml:6: settings: 'width' is not a known word (accepted: loop",
        ),
        (
            PLAIN + LOG + '[vary]\nwide = ["cut", "grow"]',
            "study.toml:6: wide: 'grow' is not a known word (accepted: drop, widen, cut)",
        ),
        (PLAIN + LOG + LOG, "two [[log]] tables have the name: 'a'"),
        (
            PLAIN + '[[log]]\npath = "a.swf"\nname = "a/b"',
            "study.toml:5: the name of a log is used as the name of a folder",
        ),
    ],
)
def test_a_refusal_says_where_and_what_is_accepted(text: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        read_study(text)
    assert said in str(refused.value)


def test_a_log_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.swf: cannot be read"):
        tasks_of(read_study(PLAIN + LOG), tmp_path)


MORE = """
replicates = 2
[[plan]]
policies = ["easy-sjbf"]
predictors = ["actual"]
[[period]]
name = "early"
to = "1970-01-05"
[[period]]
from = "1970-01-05"
[vary]
wide = ["cut", "drop"]
plan_level = ["50%", 0.9]
"""


def test_tasks_are_the_product_of_what_is_declared(tmp_path: Path) -> None:
    (tmp_path / "a.swf").write_text("; a log\n")
    tasks = tasks_of(read_study(PLAIN + MORE + LOG), tmp_path)
    assert len(tasks) == 2 * (1 + 2) * 4 * (2 * 2 + 1)
    assert len({task.key for task in tasks}) == len(tasks)
    assert tasks[0].label == "a, early, plan_level=0.5 wide=cut, easy with requested"


def keys(folder: Path, text: str) -> set[str]:
    return {task.key for task in tasks_of(read_study(text), folder)}


def test_a_key_holds_what_decides_the_result_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a.swf").write_text("; a log\n")
    (tmp_path / "b.swf").write_text("; a log\n")
    text = PLAIN + "replicates = 1\n" + LOG
    before = keys(tmp_path, text)
    assert keys(tmp_path, text.replace("a.swf", "b.swf")) == before, "the same bytes under another name"
    assert keys(tmp_path, text + 'name = "other"') == before
    assert keys(tmp_path, text.replace("replicates = 1", "replicates = 3")) > before
    seeded = keys(tmp_path, "seed = 7\n" + text)
    assert len(seeded & before) == len(before) // 2, "the log itself does not hang on the seed, its replicates do"
    (tmp_path / "a.swf").write_text("; another log\n")
    assert not keys(tmp_path, text) & before
    assert not keys(tmp_path, text + 'clean = ["reference"]') & keys(tmp_path, text)
