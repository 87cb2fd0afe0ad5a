"""The floor under unfinished jobs, and the interval of a ratio over runs that share their draws."""

from __future__ import annotations

import pytest

from batchcast.grid.study import run_study
from batchcast.papers.grid.page import paper_tables
from batchcast.papers.grid.study import FLOOR, floors, paper_study, relations


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


@pytest.fixture(scope="module")
def results() -> list[dict[str, object]]:
    from time import perf_counter

    study = paper_study(jobs=200, runs=3, rates=(20.0,))
    return run_study(study, watch=perf_counter, keep_runs=True)


def test_no_heuristic_goes_below_the_floor_and_the_table_shows_it(results: list[dict[str, object]]) -> None:
    for one in results:
        assert one["unfinished"] >= one[FLOOR]
    of_both = {one[FLOOR] for one in results if one["heuristic"] in ("min_min", "emin_min") and one["data_share"] == 0.3
               and one["large_share"] == 0.3}  # fmt: skip
    assert len(of_both) == 1
    table = next(t for t in paper_tables(results) if t.caption == "The floor under the unfinished jobs")
    assert table.rows == floors(results)


def test_a_ratio_has_its_interval_over_the_runs(results: list[dict[str, object]]) -> None:
    for one in relations(results):
        assert one["ours_ci95"] > 0
        assert one["stands"] == ("outside" if abs(one["ours"] - 1) > one["ours_ci95"] else "inside")
    without = [{k: v for k, v in one.items() if not k.endswith("_runs")} for one in results]
    assert {one["stands"] for one in relations(without)} == {"one run"}
