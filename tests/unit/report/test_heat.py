"""Tests heat maps and their tables: every value is also given in words, and equals the computed value."""

from __future__ import annotations

import io
import json
import re

import numpy as np
import pytest

from batchcast.evaluation.evaluation import Evaluation, evaluate
from batchcast.report.blocks import Figure, Table, page
from batchcast.report.evaluation.heat_maps import (
    DIVERGING,
    LIMIT_NAMES,
    SIZE_NAMES,
    brief,
    change_heat,
    recorded_heats,
    signed,
)
from batchcast.report.evaluation.machine import EDGES_S, NAMES, recorded_wait_blocks
from batchcast.report.evaluation.page import sections
from batchcast.report.figures import span
from batchcast.report.limits import waste_blocks
from batchcast.report.terminal import show
from batchcast.table import LogInfo, Trace


def trace(jobs: int = 1500, **columns: object) -> Trace:
    rng = np.random.default_rng(8)
    run = np.ceil(rng.lognormal(7, 1.3, jobs))
    given = {"submit_time": np.sort(rng.uniform(0, 12 * 86400, jobs)).round(), "wait_time": rng.exponential(9000, jobs),
             "run_time": run, "req_time": run * rng.integers(1, 30, jobs), "req_procs": rng.integers(1, 40, jobs),
             "user_id": rng.integers(0, 20, jobs), "queue_id": rng.integers(0, 3, jobs)}  # fmt: skip
    return Trace.from_arrays({**given, **columns}, LogInfo(max_procs=64, max_procs_source="header"))


@pytest.fixture(scope="module")
def found() -> Evaluation:
    return evaluate(trace(), predictor=["last_2"])


def cells(figure: Figure) -> dict[tuple[str, str], str]:
    (heat,) = figure.data
    return dict(zip(zip(heat["y"], heat["x"]), heat["customdata"]))


def test_a_cell_of_recorded_waits_is_the_median_of_its_jobs(found: Evaluation) -> None:
    by_time, by_size = recorded_heats(found)
    log = found.trace
    inside = (log.procs("req") > 4) & (log.procs("req") <= 16) & (log.req_time > 3600) & (log.req_time <= 14400)
    wait = float(np.median(log.wait_time[inside]))
    assert cells(by_size)["5–16", "1–4 h"] == f"{span(wait)} ({inside.sum():,} jobs)"
    thursday_night = (log.submit_time % (7 * 86400)) < 3 * 3600  # the log's clock begins on a Thursday
    wait = float(np.median(log.wait_time[thursday_night]))
    assert cells(by_time)["Thu", "00–03 h"] == f"{span(wait)} ({thursday_night.sum():,} jobs)"
    assert "65 and more" not in {row for row, _ in cells(by_size)}
    assert "fewer than 5 jobs are empty" in by_size.caption


def test_each_partition_has_its_own_waits_by_size() -> None:
    log = trace(400, partition_id=np.arange(400) % 3 // 2)  # two thirds of the jobs in cell 0, one third in cell 1
    figures = recorded_heats(evaluate(log, predictor=["requested"]))[2:]
    assert [figure.title for figure in figures] == [
        "Waits by size and limit in partition 0, as recorded", "Waits by size and limit in partition 1, as recorded",
    ]  # fmt: skip
    here = (log.nominal("partition_id").codes == 1) & (log.procs("req") > 4) & (log.procs("req") <= 16)
    inside = here & (log.req_time > 3600) & (log.req_time <= 14400)
    assert (
        cells(figures[1])["5–16", "1–4 h"] == f"{span(float(np.median(log.wait_time[inside])))} ({inside.sum():,} jobs)"
    )


def test_the_table_behind_it_and_the_alternative_text_have_the_same_values(found: Evaluation) -> None:
    for figure in (*recorded_heats(found), *change_heat(found)):
        assert figure.table is not None
        names = [column.title for column in figure.table.columns]
        behind = {
            (row["row"], names[k]): row[f"c{k - 1}"]
            for row in figure.table.rows
            for k in range(1, len(names))
            if row[f"c{k - 1}"] is not None
        }
        assert behind == cells(figure)
        extremes = re.findall(r"(?:most|least) (\S[^(]*?) \(([^,]+), ([^;]+);", figure.alt)
        assert len(extremes) == 2
        for value, row, column in extremes:
            assert cells(figure)[row, column].startswith(value)


def test_the_change_is_of_the_same_jobs_under_the_same_policy(found: Evaluation) -> None:
    (figure,) = change_heat(found)
    waits = {o.predictor: o.schedule for o in found.outcomes if o.policy == figure.policy}
    limits, ours = waits["requested"], waits["last_2"]
    procs, asked = found.trace.procs("req")[limits.rows], found.trace.req_time[limits.rows]
    inside = (procs > 16) & (procs <= 64) & (asked > 4 * 3600) & (asked <= 12 * 3600)
    before, after = (float(np.median(one.wait_time[inside])) for one in (limits, ours))
    expected = f"{signed(after - before)} ({span(before)} to {span(after)}; {inside.sum():,} jobs)"
    assert cells(figure)["17–64", "4–12 h"] == expected
    assert figure.layout["scale"] == DIVERGING
    assert len(figure.layout["legend"]) == 7
    shade = dict(zip(zip(figure.data[0]["y"], figure.data[0]["x"]), figure.data[0]["shade"]))
    for place, words in cells(figure).items():
        assert (shade[place] < 3) == words.startswith("-") or shade[place] == 3


def test_the_density_counts_the_jobs_that_the_validity_line_judges(found: Evaluation) -> None:
    checked = found.validity
    assert checked is not None
    assert checked.waits is not None
    words, curves, density = recorded_wait_blocks(found)
    assert isinstance(words, str)
    assert isinstance(density, Figure)
    assert isinstance(curves, Figure)
    recorded, simulated = checked.waits.recorded, checked.waits.simulated
    assert recorded.mean() == checked.recorded_mean_wait_s
    assert np.median(simulated) == checked.simulated_median_wait_s
    assert len(recorded) == checked.jobs
    counts = {place: int(text.split()[0].replace(",", "")) for place, text in cells(density).items()}
    assert sum(counts.values()) == checked.jobs
    low, high = EDGES_S[5], EDGES_S[6]
    both = (recorded >= low) & (recorded < high) & (simulated < EDGES_S[0])
    assert counts.get((NAMES[0], NAMES[6]), 0) == both.sum()
    assert f"The same {checked.jobs:,} jobs" in words
    drawn = [trace for trace in curves.data if trace["meta"]["variant"] == "the curves"]
    assert [trace["name"] for trace in drawn] == ["recorded", "simulated"]
    assert f"distance between the curves is {checked.wait_distance:.2f}" in curves.caption
    for trace, waits in zip(drawn, (recorded, simulated)):
        assert trace["y"][0] == pytest.approx((waits <= 60).mean(), rel=1e-4)


def test_what_was_recorded_exactly_so_is_all_framed() -> None:
    log = trace(300)
    found = evaluate(log, predictor=["requested"], policy=["easy"])
    exact = log.with_columns({"wait_time": found.outcomes[0].schedule.wait_time})
    density = recorded_wait_blocks(evaluate(exact, predictor=["requested"], policy=["easy"]))[2]
    assert isinstance(density, Figure)
    assert "the same class in both (100.0 % of the jobs)" in density.caption
    assert all(row == column for row, column in cells(density))


def test_waste_is_a_table_for_each_grouping_and_bars_of_the_largest(found: Evaluation) -> None:
    words, *tables, bars = waste_blocks(found)
    by_user, by_queue = (table for table in tables if isinstance(table, Table))
    assert (by_user.folded, by_queue.folded) == (False, True)
    assert by_user.rows[-1]["name"] == "10 others"
    assert len(by_user.rows) == 11
    assert [row["name"] for row in by_queue.rows] == [str(row["group"]) for row in by_queue.rows]
    assert isinstance(bars, Figure)
    assert bars.pick == ("by user", "by queue")
    drawn = {trace["meta"]["variant"]: trace["y"] for trace in bars.data}
    assert drawn["by user"] == [row["name"] for row in by_user.rows[:-1]]
    assert "failed" not in {column.key.split("_")[0] for column in by_user.columns}, "the log has no status"
    series = [trace["name"] for trace in bars.data if trace["meta"]["variant"] == "by user"]
    assert series == ["used", "ended by the limit", "requested and unused"]
    whole = found.waste_rows()[0]
    assert f"{whole['asked_core_h']:,.0f} core-hours" in str(words)


def test_a_job_without_a_limit_is_said() -> None:
    log = trace()
    some = np.where(np.arange(len(log)) < 7, np.nan, log.req_time)
    words, table, *_ = waste_blocks(evaluate(log.with_columns({"req_time": some}), predictor=["last_2"]))
    assert "7 jobs without a time limit count as used and not as requested" in str(words)
    assert isinstance(table, Table)
    assert sum(row["jobs_without_limit"] for row in table.rows) == 7


def test_without_limits_users_or_waits_there_are_no_empty_pictures() -> None:
    bare = Trace.from_arrays({"submit_time": [0.0, 9.0], "run_time": [5.0, 5.0], "req_procs": [1, 1]})
    found = evaluate(bare, predictor=["last_2"])
    assert waste_blocks(found) == recorded_wait_blocks(found) == recorded_heats(found) == change_heat(found) == []
    titles = [section.title for section in sections(found, {})]
    assert "Unused core-hours" not in titles
    assert "Validity of the simulation" not in titles


def test_folded_tables_are_for_the_page_alone(found: Evaluation) -> None:
    from rich.console import Console

    console = Console(width=200, record=True, file=io.StringIO())
    blocks = waste_blocks(found)
    show(console, blocks)
    text = console.export_text()
    assert "Core-hours by user" in text
    assert "Core-hours by queue" not in text
    html = page("t", sections(found, {}), {})
    assert html.count('<details class="more">') == 1 + 2 + 1 + 1  # waste by queue, waits, density, change
    figures = json.loads(re.search(r'id="figures">(.*?)</script>', html, re.DOTALL)[1])
    assert sum(figure["data"][0]["type"] == "heat" for figure in figures) == 4


def test_names_of_classes_do_not_repeat() -> None:
    assert len(set(SIZE_NAMES)) == len(set(LIMIT_NAMES)) == 5
    assert len(set(NAMES)) == len(EDGES_S) + 1
    assert NAMES[:3] == ("< 1 min", "1–2 min", "2–4 min")
    assert [brief(v, sign=True) for v in (-59.0, 3599.0, 86399.0)] == ["-59 s", "+1.0 h", "+1.0 d"]


def test_the_sizes_that_make_most_of_the_difference_are_named() -> None:
    log = trace(600, req_procs=np.where(np.arange(600) % 10 == 0, 40, 2))
    schedule = evaluate(log, predictor=["requested"], policy=["easy"]).outcomes[0].schedule
    later = schedule.wait_time + np.where(schedule.procs > 16, 86400.0, 0.0)
    words = recorded_wait_blocks(evaluate(log.with_columns({"wait_time": later}), predictor=["requested"]))[0]
    assert "Jobs of 17-64 processors are 10.0 % of the jobs and 100.0 % of the difference in waits." in str(words)
    alike = recorded_wait_blocks(
        evaluate(log.with_columns({"wait_time": schedule.wait_time}), predictor=["requested"])
    )[0]
    assert "difference" not in str(alike)
