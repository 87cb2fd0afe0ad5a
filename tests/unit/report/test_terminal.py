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
