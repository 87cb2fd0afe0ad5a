"""Tests the same tables on a terminal, with names unchanged."""

from __future__ import annotations

import io

import pytest

from batchcast.report import Callout, Table, TableColumn
from batchcast.report.terminal import show


def test_names_are_not_markup() -> None:
    from rich.console import Console

    out = io.StringIO()
    columns = [TableColumn("who", "user"), TableColumn("mae_s", "mean error", "seconds")]
    table = Table("By user", columns, [{"who": "[red]bob[/red]", "mae_s": 8733.2}])
    show(Console(file=out, width=100), [table, Callout("Beware [of] this.", "warning", "Validity."), "Plain."])
    text = out.getvalue()
    assert "[red]bob[/red]" in text
    assert "2 h 26 min" in text
    assert "Validity. Beware [of] this." in text


ROW = {"predictor": "recent_mean", "jobs": 202871, "mae_s": 8e4, "median_ae_s": 5e4, "p95_ae_s": 2e5, "apa": 0.5,
       "underestimate_rate": 0.489, "mean_shortfall_s": 81234.0, "coverage_90": 0.91, "seconds": 2.53}  # fmt: skip
VALUES = ("202,871", "22 h 13 min", "13 h 53 min", "2 d 8 h", "0.500", "48.9 %", "22 h 34 min", "91.0 %", "2.53")
SCHEDULED = {"mean_wait_s": 8e4, "share_of_perfect": 0.443, "median_wait_s": 7.0, "p95_wait_s": 9e6,
             "mean_bounded_slowdown": 12345.0, "median_bounded_slowdown": 1.25, "utilization": 0.613,
             "backfilled_share": 0.377, "corrections": 13322}  # fmt: skip


def printed(tables: list[Table], width: int) -> str:
    from rich.console import Console

    out = io.StringIO()
    show(Console(file=out, width=width), tables, every_column=True)
    assert max(map(len, out.getvalue().splitlines())) <= width
    return out.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 100, 2000])
def test_no_width_loses_a_figure(width: int) -> None:
    from batchcast.report.accuracy import accuracy_table
    from batchcast.report.evaluation.page import MORE_COLUMNS, SCHEDULE_COLUMNS

    schedule = {**SCHEDULED, "policy": "EASY-SJBF", "predictor": "recent_mean"}
    tables = [Table("Schedules", SCHEDULE_COLUMNS, [schedule]), Table("More", MORE_COLUMNS, [schedule])]
    text = printed([accuracy_table([ROW], "honest", {}), *tables], width)
    assert "…" not in text
    for value in (*VALUES, "7 s", "104 d 4 h", "12,345", "1.25", "61.3 %", "37.7 %", "13,322"):
        assert value in text, value
    for name in ("EASY-SJBF", "recent_mean"):
        assert name in text


def test_a_block_repeats_what_its_rows_are_about() -> None:
    columns = [TableColumn("who", "user"), *(TableColumn(f"t{k}", f"time {k}", "seconds") for k in range(12))]
    rows = [{"who": who, **{f"t{k}": 1e6 + k for k in range(12)}} for who in ("ada", "bob")]
    text = printed([Table("Times", columns, rows, "A note.")], 80)
    blocks = text.count("user")
    assert blocks > 1
    assert text.count("ada") == text.count("bob") == blocks
    assert text.count("Times") == text.count("A note.") == 1


def test_long_names_fold_and_figures_do_not() -> None:
    name = "recent_mean:fields=account+req_time+procs,k=10"
    text = printed([Table("", [TableColumn("p", "predictor"), TableColumn("s", "error", "seconds")],
                          [{"p": name, "s": 8733.2}])], 40)  # fmt: skip
    assert "2 h 26 min" in text
    assert name in "".join(line.split("  ")[0].strip() for line in text.splitlines())


def test_a_table_of_few_columns_is_no_wider_than_eyes_follow() -> None:
    from rich.console import Console

    long = "a title of many words"
    columns = [TableColumn("p", "predictor"), *(TableColumn(f"s{k}", long, "seconds") for k in "123"),
               TableColumn("d", "against the usual rule", "difference"),
               TableColumn("m", "only when asked for", "number", more=True)]  # fmt: skip
    row = {"p": "recent_mean", **{f"s{k}": 8733.2 for k in "123"}, "d": "-13.2 min (-16.8 to -9.8)", "m": 0.125}
    for every, there in ((False, False), (True, True)):
        out = io.StringIO()
        show(Console(file=out, width=2000), [Table("Times", columns, [row])], every)
        lines = [line.rstrip() for line in out.getvalue().splitlines()]
        assert ("0.12" in out.getvalue()) is there
        assert (max(map(len, lines)) <= 110) is not every
        assert sum("-13.2 min (-16.8 to -9.8)" in line for line in lines) == 1, "on one line"


DIFFERENCE = "ahead -03:00:56 (-03:59:44 to -02:02:08)"


@pytest.mark.parametrize("width", range(40, 131, 5))
def test_differences_with_their_intervals_lose_no_figure(width: int) -> None:
    columns = [
        TableColumn("policy", "policy"), TableColumn("with", "planned with"),
        TableColumn("wait", "mean wait against fcfs, requested", "difference"),
        TableColumn("slowdown", "mean slowdown against fcfs, requested", "difference"),
        *(TableColumn(f"share{k}", f"users of kind {k}", "share") for k in range(4)),
    ]  # fmt: skip
    row = {"policy": "conservative", "with": "recent_mean", "wait": DIFFERENCE,
           "slowdown": "ahead -47.1 (-78.2 to -16.0)", **{f"share{k}": 0.121 + k / 10 for k in range(4)}}  # fmt: skip
    text = printed([Table("What is real", columns, [row])], width)
    figures = ("-03:00:56", "(-03:59:44", "-02:02:08)", "-47.1", "(-78.2", "-16.0)", "12.1 %", "22.1 %", "42.1 %")
    for figure in figures:
        assert text.count(figure) == 1, (figure, text)
    for name in ("conservative", "recent_mean"):
        assert name in text
