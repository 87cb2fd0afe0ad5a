"""Tests the page: one file, no text from a log can run code, and every block is present."""

from __future__ import annotations

import json
import re

import numpy as np

from batchcast.report import Callout, Section, Table, TableColumn, figures, page
from batchcast.report.blocks import script_json

NASTY = "</script><script>alert(1)</script>"


def nasty_page() -> str:
    table = Table(NASTY, [TableColumn("name", NASTY, meaning=NASTY)], [{"name": NASTY}], note=NASTY)
    figure = figures.bars(NASTY, [NASTY], {NASTY: [1.0]}, value=NASTY)
    blocks = [NASTY, Callout(NASTY, "warning", NASTY), table, figure]
    return page(NASTY, [Section(NASTY, blocks)], {NASTY: NASTY, "list": [NASTY], "map": {NASTY: NASTY}})


def test_nothing_from_a_log_can_act_in_the_page() -> None:
    html = nasty_page()
    assert "alert(1)</script>" not in html
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)" in html


def test_the_figures_are_json_with_the_given_values() -> None:
    figure = figures.lines("Error", {"last_2": (np.array([1, 2]), np.array([60.0, float("nan")]))}, x="jobs", y="MAE")
    html = page("t", [Section("s", [figure])], {})
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    trace = json.loads(found[1])[0]["data"][0]
    assert trace["y"] == [60.0, None]
    assert trace["name"] == "last_2"


def test_a_page_without_figures_carries_no_plots() -> None:
    assert len(page("t", [Section("s", ["text"])], {})) < 20_000


def test_the_page_asks_for_nothing_outside() -> None:
    html = page("t", [Section("s", ["text"])], {})
    assert not re.findall(r'(?:src|href)="(?!#|data:)', html)


def test_script_json_cannot_close_its_element() -> None:
    text = script_json({"a": NASTY, "b": "\u2028"})
    assert "<" not in text
    assert json.loads(text) == {"a": NASTY, "b": "\u2028"}
