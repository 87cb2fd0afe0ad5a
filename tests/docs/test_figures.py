"""Each figure that a page marks is the one in its file, and a figure that moved is found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools.figures import __main__ as command
from tools.figures.files import Figures, Study, read_files
from tools.figures.pages import LONG, ROOT, faults, shown, unbound, with_blocks

FILES = {
    "study": {
        "values": {"a_s": 124.0, "b_share": 0.8012, "c": 22606, "d": 0.96, "word": "none"},
        "blocks": {"table": ["| a |", "|---|", "| 1 |"]},
    }
}
PAGE = """Half are off by **2 min
4 s**<!--=study:a_s-->, 80.1<!--=study:b_share--> and 80.1 %<!--=study:b_share--> of 22,606<!--=study:c--> jobs,
.96<!--=study:d-->, 1.0<!--=study:d|1-->, on none<!--=study:word-->.

<!--=study#table-->

| a |
|---|
| 1 |

<!--end-->
"""


def wrong(text: str) -> list[str]:
    """What is found wrong with a page of this text."""
    return list(faults(Path("page.md"), text, FILES))


def test_pages_and_files_agree() -> None:
    assert command.check(read_files()) == []


def test_a_page_that_agrees_is_left_alone() -> None:
    assert wrong(PAGE) == []
    assert with_blocks(PAGE, FILES) == PAGE


@pytest.mark.parametrize(
    ("right", "stale", "said"),
    [
        ("4 s**<!--", "5 s**<!--", "study.json says '2 min 4 s'"),
        ("80.1<!--", "79.9<!--", "study.json says '80.1 %'"),
        ("22,606<!--", "122,606<!--", "study.json says '22,606'"),
        ("none<!--", "one<!--", "study.json says 'none'"),
        ("| 1 |", "| 2 |", "the lines are not those of study.json, table"),
        ("study:word", "study:wrod", "study.json has no wrod (it has a_s, b_share, c, d, word)"),
        ("study:c", "studies:c", "no file docs/figures/studies.json"),
        ("<!--=study:c-->", "<!-- =study:c -->", "marks begin with <!--="),
    ],
)
def test_a_figure_that_is_not_the_files_is_found(right: str, stale: str, said: str) -> None:
    assert any(said in fault for fault in wrong(PAGE.replace(right, stale)))


NEW = "| log | mean wait, h |\n|---|---|\n| KTH | 2.9 |\n| CTC | 5.9 |\n"


def test_a_table_of_figures_that_no_file_feeds_is_refused() -> None:
    page = ROOT / "docs" / "evidence" / "new.md"
    assert list(unbound(page, f"# New\n\n{NEW}")) == [
        "docs/evidence/new.md, line 3: no file of docs/figures feeds this table of figures (tools/figures/studies.py)"
    ]
    assert list(unbound(ROOT / "README.md", NEW))
    fed = ("<!--=study#table-->\n\n" + NEW + "\n<!--end-->\n", NEW.replace("5.9", "5.9<!--=study:c-->"))
    words = "| log | verdict |\n|---|---|\n| KTH | close |\n| CTC | far |\n"
    assert [list(unbound(page, text)) for text in (*fed, words)] == [[]] * 3


def test_each_table_on_the_list_of_those_without_a_file_exists() -> None:
    for name, titles in LONG.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        for title in titles:
            assert f"\n| {title} |".replace("|  |", "| |") in text, (name, title)


def test_a_table_is_written_anew() -> None:
    assert with_blocks(PAGE.replace("| 1 |", "| 2 |"), FILES) == PAGE


def test_a_value_is_shown_by_what_its_name_says() -> None:
    assert [shown(name, value)[0] for name, value in FILES["study"]["values"].items()] == [
        "2 min 4 s",
        "80.1 %",
        "22,606",
        "0.96",
        "none",
    ]


@pytest.mark.parametrize("name", ["lab-limits", "lab-limits-anew", "interval-coverage"])
def test_a_file_that_is_seldom_run_again_is_what_its_printed_table_gives(name: str) -> None:
    file = read_files()[name]
    study = next(study for study in command.STUDIES if study.name == name)
    figures = study.read(["\n".join(file["blocks"]["table"]) + "\n"], Path())
    assert (figures.values, figures.blocks) == (file["values"], file["blocks"])


def test_a_control_is_read_from_what_the_benchmark_of_the_order_prints() -> None:
    head = "| arm | jobs | mean wait | slowdown | longest | people worse off | wait difference | slowdown difference |"
    printed = f"""Differences from none:

{head}
| --- | --- | --- | --- | --- | --- | --- | --- |
| none | 900 | 99.4 | 16.9 | 337.2 | 0 of 33 | - | - |
| order | 900 | 64.0 | 11.2 | 370.0 | 5 of 33 | -35.4 (-44.0 to -26.8): ahead | -5.7 (-7.0 to -4.4): ahead |

Differences from order-limits:

{head}
| --- | --- | --- | --- | --- | --- | --- | --- |
| none | 900 | 99.4 | 16.9 | 337.2 | 5 of 33 | 33.1 (23.0 to 43.2): behind | 5.0 (3.0 to 7.0): behind |
| order | 900 | 64.0 | 11.2 | 370.0 | 1 of 33 | -2.3 (-9.1 to 4.5): level | -0.7 (-2.0 to 0.6): level |
"""
    study = next(study for study in command.STUDIES if study.name == "lab-order-control")
    figures = study.read([printed], Path())
    assert figures.values["order.wait_from_none.low"] == -44.0
    assert figures.values["order.wait_from_order-limits.high"] == 4.5
    assert (figures.values["order.longest_times"], figures.values["order.worse_off"]) == (1.1, "5 of 33")
    assert figures.blocks["changes"][-1].endswith("| 5 of 33 | -35.4 (-44.0 to -26.8) | -2.3 (-9.1 to 4.5) |")


def test_recorded_runs_are_read_from_what_the_proof_prints() -> None:
    printed = """set  against         jobs  30 s  300 s  mean wait  wait ratio  KS     rank
fifo  real run 2      416   90%   100%   902 s      0.998       0.019  1.000
fifo  simulated 1     416   89%   100%   912 s      1.010       0.029  1.000
fifo  simulated 2     416   86%   98%    905 s      1.004       0.031  1.000
fifo  another policy  416   27%   62%    630 s      0.697       0.149  0.955

Starts in the ten minutes after recorded states, history as recorded until then:
set     states  starts  right  seen  within 30 s
fifo-1  50      1500    100%   99%   98%
fifo-2  50      1512    97%    99%   100%
"""
    study = next(study for study in command.STUDIES if study.name == "slurm-records")
    figures = study.read([printed], Path())
    assert figures.blocks["table"][2] == "| fifo | 100 %, 1.00, 0.019 | 99 %, 1.01, 0.030 | 62 %, 0.70, 0.149 |"
    assert figures.values == {
        "sets": 1, "more_30": 0, "fewer_30": 1, "more_300": 0, "fewer_300": 1,
        "right_least": "97 %", "right_most": "100 %",
    }  # fmt: skip


def test_bounds_are_read_from_what_the_benchmark_prints() -> None:
    printed = """bounds of `calibrated`: share that held, and share of windows of 5,000 jobs within 2 points
KTH       lots 80.0% 0.801 1.000   90.0% 0.900 0.990   95.0% 0.950 1.000
KTH            80.0% 0.802 0.970   90.0% 0.895 0.858   95.0% 0.949 0.990
          windows that fail at 90 %: 2 of 40; the user with most misses owns 40% of them at the median
"""
    study = next(study for study in command.STUDIES if study.name == "bounds-windows")
    figures = study.read([printed], Path())
    assert figures.blocks["windows"][2:] == ["| KTH | 0.895 | 0.858 | 0.900 | 0.990 |"]
    assert figures.values == {"logs": 1, "near": 0}


def test_a_sample_runs_a_command_and_finds_what_moved(capsys: pytest.CaptureFixture[str]) -> None:
    def read(printed: list[str], _: Path) -> Figures:
        return Figures(json.loads(printed[0]), {"line": printed[0].splitlines()})

    study = Study("two", ("""echo '{"jobs": 2, "name": "b"}'""",), read)
    assert command.sample([study], 3, seed=20261126) == [study]
    same = {"values": {"jobs": 2, "name": "b"}, "blocks": {}}
    assert command.rerun([study], {"two": same}) == []
    other = {"values": {"jobs": 3, "name": "a"}, "blocks": {"line": ["another"]}}
    assert command.rerun([study], {"two": other}) == [
        "two: jobs was 3 and is 2",
        "two: name was 'a' and is 'b'",
        "two: the lines of line are others",
    ]
    assert "echo" in capsys.readouterr().out


def test_what_takes_long_or_has_no_log_is_not_sampled() -> None:
    made = [
        Study("long", ("true",), lambda *_: Figures(), rerun="long"),
        Study("gone", ("true",), lambda *_: Figures(), logs=("no-such-log.swf.gz",)),
        Study("sizes", ("true",), lambda *_: Figures(), exact=False),
    ]
    assert command.sample(made, 3, seed=1) == []
