"""Tests that the first screen follows the numbers, claims no gain from a bad simulation, and always has the validity
line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcast.evaluation.accuracy import ForecastRow, Scores
from batchcast.evaluation.evaluation import Evaluation
from batchcast.evaluation.findings import ScheduleRow
from batchcast.evaluation.validity import Validity
from batchcast.report.blocks import Table
from batchcast.report.evaluation.first_screen import _step_without_gain, _unused_tile, answer, first_screen, price
from batchcast.report.evaluation.gains import harm_words
from batchcast.report.evaluation.page import limits_used
from batchcast.report.figures import span
from batchcast.report.validity import judgement, validity_line, with_judgement
from batchcast.table import LogInfo, Trace


class ByHand(Evaluation):
    """An evaluation without schedules: mean waits decide."""

    def _difference(self, row: ScheduleRow, other: ScheduleRow) -> None:
        return None

    def _optimism(self, rows: Sequence[ScheduleRow]) -> float:
        return 0.0


def found(
    waits: dict[tuple[str, str], float],
    ratio: float = 1.0,
    points: float = 110.0,
    tail: float = 900.0,
    more: dict[str, float] | None = None,
    **gaps: int,
) -> Evaluation:
    """An evaluation of four jobs of 100 s with limits of 1000 s, and the given mean waits."""
    trace = Trace.from_arrays(
        {"submit_time": [0.0] * 4, "run_time": [100.0] * 4, "req_time": [1000.0] * 4, "req_procs": [1] * 4},
        LogInfo(max_procs=8.0),
    )
    everyone = np.ones(4, bool)
    said = {"requested": ForecastRow(np.full(4, 1000.0)), "last_2": ForecastRow(np.full(4, points))}
    scores = Scores(trace, "honest", "req", said, everyone, 0)
    outcomes = [
        ScheduleRow(p, s, {"jobs": 4, "mean_wait_s": w, "p95_wait_s": 900.0 if s == "requested" else tail}, None)
        for (p, s), w in waits.items()
    ]
    checked = Validity(
        jobs=4,
        all_jobs=4,
        recorded_mean_wait_s=600.0 * ratio,
        simulated_mean_wait_s=600.0,
        recorded_median_wait_s=60.0,
        simulated_median_wait_s=60.0,
        uncovered=gaps,
        uncovered_jobs=max(gaps.values(), default=0),
        **{"rank_correlation": 0.9, "waited_jobs": 300, **(more or {})},
    )
    return ByHand(trace, everyone, "req", scores, outcomes, checked if waits else None, "" if waits else "No size.", ())


def text(evaluation: Evaluation) -> str:
    """Return every sentence of the first screen."""
    screen = first_screen(evaluation)
    tiles = [f"{tile.title}: {tile.value} {tile.note}" for tile in screen.tiles]
    return " ".join([screen.headline, screen.caution, *tiles, screen.next_step])


GOOD = {("easy", "requested"): 600.0, ("easy", "last_2"): 450.0, ("easy", "actual"): 300.0}
BAD = {("easy", "requested"): 600.0, ("easy", "last_2"): 900.0, ("easy", "actual"): 300.0}


def test_the_headline_has_the_gain_and_the_bars_have_the_steps() -> None:
    screen = first_screen(found(GOOD))
    assert screen.headline == "EASY planned with predictions would shorten the mean wait by 2 min 30 s."
    assert [(bar.label, bar.value_s) for bar in screen.bars] == [
        ("today", 600.0), ("by predictions", 450.0), ("perfect knowledge", 300.0),
    ]  # fmt: skip
    assert [bar.change_s for bar in screen.bars[1:]] == [-150.0, -300.0]
    assert "mean of the user's last two jobs (last_2)" in screen.bars[1].method
    assert "machine capture" in screen.next_step, "`batchcast plan` cannot carry out a policy of a pool"


def test_the_next_step_names_settings_that_plan_understands() -> None:
    waits = {("slurm", "requested"): 600.0, ("slurm-least-work", "requested"): 300.0, ("slurm", "last_2"): 590.0}
    perfect = {("slurm", "actual"): 500.0, ("slurm-least-work", "actual"): 290.0}
    screen = first_screen(found({**waits, **perfect}, more={"policy": "slurm"}))
    assert '`plan = "order"` and `plan_order_by = "limits"`' in screen.next_step
    assert screen.headline.startswith("Starting jobs with the least requested core-hours first would shorten")


def test_harm_is_told_as_harm() -> None:
    assert "No queue order that was tried is clearly better" in text(found(BAD))
    harm = " ".join(harm_words(found(BAD)))
    assert "under EASY with last_2, jobs would wait longer than today" in harm


def test_the_headline_carries_the_error_of_the_simulation() -> None:
    words = first_screen(found(GOOD, ratio=1.3)).headline  # 780 s recorded, 600 s simulated, a gain of 150 s
    assert words.endswith("The simulation is off by 3 min: treat this as a hint.")
    assert "hint" not in first_screen(found(GOOD, ratio=1.05)).headline


def test_the_gain_of_a_rough_simulation_is_a_hint() -> None:
    screen = first_screen(found(GOOD, more={"wait_distance": 0.5}))
    assert "treat this as a hint" in screen.headline
    assert screen.tone == "note"


@pytest.mark.parametrize("more", [{"rank_correlation": 0.07}, {"rank_correlation": float("nan")}, {"waited_jobs": 199}])
def test_nothing_is_close_without_ranks_or_with_few_jobs_that_waited(more: dict[str, float]) -> None:
    evaluation = found(GOOD, more=more)
    assert evaluation.validity is not None
    assert evaluation.validity.verdict == "rough"
    assert "hint" in first_screen(evaluation).headline
    assert "close" not in judgement(evaluation.validity, brief=True).text


def test_the_brief_validity_line_is_short() -> None:
    checked = found(GOOD, ratio=1.2).validity
    assert checked is not None
    line = judgement(checked, brief=True)
    assert line.text == (
        "Mean wait 12 min recorded, 10 min simulated, rank correlation 0.90. The simulation is close to the record."
    )


def test_longer_tails_are_named_as_the_price() -> None:
    found_longer, same = found(GOOD, tail=1800.0).findings, found(GOOD).findings
    assert found_longer is not None
    assert same is not None
    assert "5 % of the jobs would wait 30 min or more; today this is 15 min" in price(found_longer)
    assert price(same) == ""


def test_the_limits_are_told_from_the_record() -> None:
    evaluation = found(GOOD)
    words = limits_used(evaluation.trace, evaluation.scores.scored, "req")
    assert "Half of the jobs use less than 10 % of their time limit" in words
    assert "90.0 % of the 1 requested" in text(evaluation)


@pytest.mark.parametrize("ratio", [4.8, 0.2])
def test_of_a_simulation_that_is_far_from_the_record_no_gain_is_told(ratio: float) -> None:
    evaluation = found(GOOD, ratio=ratio)
    words = text(evaluation)
    assert "No shorter wait is stated: the simulation does not reproduce the recorded waits" in words
    assert "batchcast limits LOG" in words
    assert "would shorten" not in words
    assert first_screen(evaluation).measure == "mean error", "what is known from the record alone"
    assert "do not trust" in validity_line(evaluation).text


def test_a_log_too_large_to_learn_from_names_the_option() -> None:
    evaluation = found(GOOD, ratio=4.8)
    assert "--machine learned" not in text(evaluation)
    rows = np.zeros(60_001, int)
    large = replace(evaluation, trace=evaluation.trace.take(rows), scores=evaluation.scores)
    assert "--machine learned" in _step_without_gain(large)


def test_the_other_way_round_is_said_the_other_way_round() -> None:
    assert "the simulated mean is 4.0 times the recorded one" in validity_line(found(GOOD, ratio=0.25)).text
    assert "no recorded job waited" in validity_line(found(GOOD, ratio=0.0)).text


def test_what_is_not_to_be_trusted_is_said_before_the_tables_and_first() -> None:
    far, close = validity_line(found(GOOD, ratio=4.8)), validity_line(found(GOOD, ratio=1.2))
    assert far.text.index("do not trust") < far.text.index("In the record, ")
    table = Table("waits", [], [])
    assert with_judgement([table], far) == [far, table]
    assert with_judgement([table], close) == [table, close]


def test_a_close_simulation_may_compare_policies() -> None:
    line = validity_line(found(GOOD, ratio=1.2))
    assert line.tone == "good"
    assert "do not trust" not in line.text


def test_waits_that_agree_where_the_model_covers_hardly_a_job_are_no_proof() -> None:
    line = validity_line(found(GOOD, ratio=1.2, more={"rank_correlation": 0.8}, memory=3))
    assert line.tone == "note"
    assert "does not cover 75.0 % of the jobs (75.0 % requested memory" in line.text
    assert "rough" in line.text


def test_without_a_machine_nothing_is_claimed() -> None:
    evaluation = found({})
    assert "No size." in text(evaluation)
    assert "cannot say how much sooner jobs would start" in validity_line(evaluation).text


def test_where_nobody_waits_there_is_nothing_to_gain_if_the_record_says_so_too() -> None:
    waits = dict.fromkeys(GOOD, 0.2)
    assert "no other queue order can gain much" in text(found(waits))
    assert "no other queue order can gain much" not in text(found(waits, ratio=1000.0))


SPECS = ("requested", "last_2", "kernel", "actual")
TABLES = st.dictionaries(
    st.sampled_from([(p, s) for p in ("easy", "easy-sjbf", "forecast") for s in SPECS]),
    st.floats(0.0, 1e6).map(round).map(float),
)


@given(TABLES, st.floats(0.0, 100.0), st.floats(0.0, 0.6))
def test_the_first_screen_follows_every_table(
    waits: dict[tuple[str, str], float], ratio: float, distance: float
) -> None:
    whole = {(p, s): waits.get((p, s), 900.0) for p in ("easy", "easy-sjbf", "forecast") for s in SPECS}
    evaluation = found(whole, ratio=ratio, more={"wait_distance": distance})
    screen = first_screen(evaluation)
    assert answer(evaluation)
    rows = [row for row in evaluation.schedule_rows() if row["predictor"] != "actual"]
    today, least = rows[0]["mean_wait_s"], min(row["mean_wait_s"] for row in rows)
    if not 0.5 <= ratio <= 2.0:
        assert "would shorten" not in screen.headline
        return
    if today < 10.0:
        assert "no other queue order can gain much" in screen.headline
        return
    assert ("would shorten" in screen.headline) == (least <= 0.98 * today)
    if "would shorten" in screen.headline:
        named = re.search(r"shorten the mean wait by (.*?)\.", screen.headline)
        assert named is not None
        assert named[1] in {span(today - row["mean_wait_s"]) for row in rows}


def test_core_hours_are_rounded_and_not_cut_off() -> None:
    """Regression: 8,992.56 core-hours are shown as 8,993."""
    trace = Trace.from_arrays(
        {"submit_time": [0.0], "run_time": [3600.0], "req_time": [3600 * 1124.07], "req_procs": [8]},
        LogInfo(max_procs=8.0),
    )
    scores = Scores(trace, "honest", "req", {}, np.ones(1, bool), 0)
    one = Evaluation(trace, np.ones(1, bool), "req", scores, [], None, "No size.", ())
    assert one.waste_rows()[0]["asked_core_h"] == pytest.approx(8992.56)
    assert "of the 8,993 requested" in _unused_tile(one).note
