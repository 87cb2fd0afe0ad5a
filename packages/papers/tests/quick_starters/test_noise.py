"""Tests PQStar's gains over other methods: every printed measure has its row, unit and interval."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from batchcast.table import Trace
from batchcast_papers.quick_starters.study import METHODS, noise_rows
from batchcast_papers.shared import gain_table


def test_every_printed_gain_is_held_to_the_noise_of_its_log() -> None:
    rng = np.random.default_rng(0)
    wait, run = rng.exponential(5000.0, 600), np.full(600, 600.0)
    trace = Trace.from_arrays(
        {
            "submit_time": np.arange(600) * 20_000.0,
            "wait_time": wait,
            "run_time": run,
            "req_procs": np.ones(600),
            "user_id": [f"u{k % 20}" for k in range(600)],
        }
    )
    said = {name: wait * (1.1 if name.startswith("pqstar") else 2.0) for name in METHODS}
    marks = {name: np.full(600, name.startswith("pqstar")) for name in METHODS}
    study = SimpleNamespace(
        name="CTC", trace=trace, rows=np.ones(600, dtype=bool), wait=wait, value=said.__getitem__,
        runs={name: SimpleNamespace(marked=marks[name]) for name in METHODS},
    )  # fmt: skip
    rows = noise_rows(study)
    of = {(row["against"], row["measure"]): row for row in rows}
    for other in ("log_uniform", "qbets", "ibl:reading=text", "ibl"):
        assert of[other, "identified"]["gain"] == 1.0
        assert abs(of[other, "RMS error"]["gain"] - 0.9) < 1e-9
        assert abs(of[other, "mean PPErt"]["gain"] - 0.9) < 1e-9
        assert of[other, "good forecasts"]["ours"] in ("outside", "inside")
    assert abs(of["ibl", "normalised RMS"]["printed_gain"] - 0.42) < 1e-9
    assert abs(of["ibl", "good forecasts"]["printed_gain"] - 0.21) < 1e-9
    assert ("qbets", "normalised RMS") not in of
    table = gain_table(rows, [("log", "log")], "x")
    assert {row["gain_words"] for row in table.rows if row["measure"] == "identified"} == {"100.0 points"}
