"""Tests the lower bound of unfinished jobs, and the interval of a ratio over runs with common random numbers."""

from __future__ import annotations

import pytest

from batchcast_papers.grid.paper_study import FLOOR, floor_table, floors, relations


def row(name: str, unfinished: float, floor: float, rate: float = 20.0, share: float = 0.3) -> dict[str, object]:
    keys = {"rate": rate, "data_share": share, "large_share": 0.3, "heuristic": name, "submitted": 100.0, FLOOR: floor}
    measures = {"unfinished": unfinished, "mean_wait": 1.0, "mean_makespan": 2.0, "decision_ms_per_job": 0.0}
    return {**keys, **measures}


def test_the_floor_is_what_no_idle_grid_could_finish() -> None:
    results = [row("min_min", 60, 20), row("emin_min", 40, 20), row("min_min", 80, 40, share=0.5)]
    results.append(row("emin_min", 60, 40, share=0.5))
    only = floors(results)
    assert [one["rate"] for one in only] == [20.0]
    assert (only[0]["floor"], only[0]["emin_min"], only[0]["min_min"]) == (30.0, 50.0, 70.0)
    assert only[0]["floor_of_submitted"] == pytest.approx(0.3)
    assert only[0]["floor_share"] == pytest.approx(0.6)
    assert only[0]["against_min_min"] == pytest.approx(50 / 70 - 1)
    assert only[0]["above_floor_against_min_min"] == pytest.approx(20 / 40 - 1)


def with_runs(name: str, unfinished: list[float]) -> dict[str, object]:
    runs = {"unfinished_runs": unfinished, "mean_wait_runs": [1.0, 1.1, 0.9], "mean_makespan_runs": [2.0, 2.1, 1.9]}
    return row(name, sum(unfinished) / 3, 10) | runs


def test_a_ratio_has_its_interval_over_the_runs() -> None:
    results = [with_runs("min_min", [60.0, 62.0, 58.0]), with_runs("emin_min", [40.0, 41.0, 39.0])]
    results.append(with_runs("asjs", [30.0, 50.0, 41.0]))
    of = {(one["against"], one["measure"]): one for one in relations(results)}
    assert of["min_min", "UFJ"]["ours_ci95"] > 0
    assert of["min_min", "UFJ"]["stands"] == "outside"
    assert of["asjs", "UFJ"]["stands"] == "inside"
    without = [{k: v for k, v in one.items() if not k.endswith("_runs")} for one in results]
    assert {one["stands"] for one in relations(without)} == {"one run"}
    floor = floors(results)[0]
    assert floor["against_min_min"] == pytest.approx(-1 / 3)
    assert 0 < floor["against_min_min_ci95"] < 0.1
    assert floor_table(results).rows[0]["against_min_min_words"].startswith("-33.3 ± ")
    assert floor_table(without).rows[0]["against_min_min_words"] == "-33.3 %"
