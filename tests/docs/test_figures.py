"""Tests that each marked figure on a page equals the figure in its file, and that a difference is reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools.figures import __main__ as command
from tools.figures.files import Figures, Study, read_files
from tools.figures.pages import ROOT, faults, shown, unbound, with_blocks

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
    """Return the faults found in a page with this text."""
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


POLICY = """{log}: 28,467 jobs, 20 replicates, seed 1; mean bounded slowdown{space}
(tau 10 s), means over replicates: EASY with limits 79.9, EASY-SJBF with perfect knowledge 45.9
  easy, limits
    mean                    79.900   5 to 95 %:    65.253 to    99.125
    wait / easy              1.000   5 to 95 %:     1.000 to     1.000
  forecast, 48h
    mean                    39.600   5 to 95 %:    36.255 to    47.326
    mean - perfect          -6.257   5 to 95 %:    -9.666 to    -3.849   target below 0
    below perfect            0.900   5 to 95 %:     0.000 to     1.000
    wait / easy              0.679   5 to 95 %:     0.620 to     0.740
    p99 / easy               0.991   5 to 95 %:     0.940 to     1.078   target at most 1.10
    maximum / easy           1.201   5 to 95 %:     1.139 to     1.322   target at most 1.25
    users above 1.10         {share}   5 to 95 %:     0.070 to     0.138
"""


def study_named(name: str) -> Study:
    """Return the study with this name."""
    return next(study for study in command.STUDIES if study.name == name)


def test_policies_are_read_from_what_the_benchmark_prints() -> None:
    logs = ("SDSC-SP2-1998-4.2-cln.swf.gz", "KTH-SP2-1996-2.1-cln.swf.gz")
    printed = [
        POLICY.format(log=log, space=" ", share=share) for log, share in zip(logs, ("0.143", "0.093"), strict=True)
    ]
    figures = study_named("policy-study").read(printed, Path())
    assert figures.blocks["table"][0] == "| `forecast` with `kernel` | target | KTH | SDSC-SP2 |"
    assert figures.blocks["table"][2].endswith("| 0.68, 0.62 to 0.74 | 0.68, 0.62 to 0.74 |")
    assert figures.blocks["table"][4].endswith("| 79.9; 45.9 | 79.9; 45.9 |")
    assert (figures.values["KTH.below_perfect"], figures.values["KTH.wait_shorter_share"]) == (18, 0.321)
    assert (figures.values["users_longer_least"], figures.values["users_longer_most"]) == ("9", "14")


def gain(against: str, measure: str, middle: float, **more: object) -> dict[str, object]:
    """Return a row of a paper's gains whose interval extends 0.1 to both sides."""
    ends = {"gain": middle, "gain_low": middle - 0.1, "gain_high": middle + 0.1, "printed_gain": 0.432}
    return {"table": "noise", "against": against, "measure": measure, **ends, **more}


def test_errors_of_su_are_read_from_its_reproduction() -> None:
    names = [f"{kind} {model}" for kind in ("SU", "plain") for model in ("linear", "forest", "svr")]
    figures = {"mae_s": 8159.4, "apa": 0.461, "underestimate_rate": 0.383}
    printed = {"printed_mae_s": 3140.5, "printed_apa": 0.7482, "printed_ur": 0.3134}
    rows: list[dict[str, object]] = [
        {"table": "5", "log": log, "jobs_of": "all", "predictor": name, **figures, **printed}
        for log in ("CTC", "NREL") for name in names
    ]  # fmt: skip
    named = {"log": "CTC", "jobs_of": "all", "method": "SU svr"}
    rows += [gain("plain svr", "MAE", 0.216, **named), gain("last_2", "MAE", -0.111, **named)]
    found = study_named("paper-su").read([{"results": rows}], Path())
    assert found.blocks["errors"][2:] == [
        "| CTC, all |" + " 8,159 .461 .383 |" * 6,
        "| printed (its own log) |" + " 3,140 .748 .313 |" * 6,
    ]
    assert found.values["CTC.all.SU_svr/plain_svr.gain_share"] == 0.216
    assert [found.values[f"CTC.all.SU_svr/last_2.{end}_share"] for end in ("more", "more_low", "more_high")] == [
        0.111, 0.011, 0.211,
    ]  # fmt: skip


def test_both_readings_of_the_baseline_are_read_from_the_reproduction() -> None:
    minh = "minh_wolters:population=50,generations=100,sample=1500"
    fixed = "knn_ga:h=1000000,first=0"
    errors = {"knn_ga": 9000.0, fixed: 8000.0, "recent_mean": 8100.0, minh: 10000.0, f"{minh},apart=yes": 9500.0}
    named = {"set": "HPC2N04", "protocol": "honest"}
    rows: list[dict[str, object]] = [
        {"table": "3-4", **named, "selection": "papers'", "predictor": name, "mae_s": error, "jobs": 2500,
         "underestimate_rate": 0.3 if "apart" in name else 0.25, "printed_mae_s": 5314, "printed_pu": 0.29}
        for name, error in errors.items()
    ]  # fmt: skip
    rows += [gain(name, measure, 0.1, **named) for name in errors for measure in ("MAE", "PU")]
    found = study_named("paper-minh").read([{"results": rows}], Path())
    assert found.values["HPC2N04.honest.split_error_share"] == -0.05
    assert found.values["HPC2N04.honest.split_late"] == 5.0
    assert found.blocks["readings"][2] == (
        "| HPC2N04 | honest | 9,000 .250 | 10,000 .250 | 9,500 .300 | 10.0 (0.0 to 20.0) | 10.0 (0.0 to 20.0) | 43.2 |"
    )
    paper = study_named("paper-knn-ga").read([{"results": rows}], Path())
    assert paper.blocks["errors"][2] == "| HPC2N04 | honest | 9,000 .250 | 8,000 .250 | 8,100 .250 | 5,314 .29 |"
    assert paper.values["HPC2N04.honest.more_than_fixed_low_share"] == -0.2
