"""The same tables on a terminal, names as they are."""

from __future__ import annotations

import io

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
    assert "02:25:33" in text
    assert "Validity. Beware [of] this." in text


def test_eighty_columns_hold_the_main_figures_whole() -> None:
    from rich.console import Console

    from batchcast.report.accuracy import accuracy_table
    from batchcast.report.evaluation import SCHEDULE_COLUMNS

    row = {"predictor": "recent_mean", "jobs": 202871, "mae_s": 8e4, "median_ae_s": 5e4, "p95_ae_s": 2e5, "apa": 0.5}
    row |= {"underestimate_rate": 0.489, "mean_shortfall_s": 8e4, "seconds": 2.5}
    numbers = {column.key: 0.5 for column in SCHEDULE_COLUMNS}
    schedule = {**numbers, "policy": "EASY-SJBF", "predictor": "recent_mean", "mean_wait_s": 8e4, "median_wait_s": 8e4}
    out = io.StringIO()
    tables = [accuracy_table([row], "honest", {}), Table("Schedules", SCHEDULE_COLUMNS, [schedule])]
    show(Console(file=out, width=80), tables)
    text = out.getvalue()
    assert "…" not in text
    for value in ("202,871", "22:13:20", "13:53:20", "0.500", "48.9 %", "EASY-SJBF", "recent_mean"):
        assert value in text
    assert max(map(len, text.splitlines())) <= 80
