"""The opening sentences follow the numbers' signs, and the validity line is never missing."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcast.evaluation.accuracy import Scores
from batchcast.evaluation.evaluation import Evaluation, Outcome, evaluate
from batchcast.evaluation.validity import Validity
from batchcast.report.blocks import Table
from batchcast.report.evaluation.first_screen import cards, opening
from batchcast.report.evaluation.gains import gain_sentences, harm_words, plan_words
from batchcast.report.figures import span
from batchcast.report.validity import validity_line, with_judgement
from batchcast.table import LogInfo, Trace


def found(
    waits: dict[tuple[str, str], float],
    ratio: float = 1.0,
    points: float = 110.0,
    tail: float = 900.0,
    more: dict[str, float] | None = None,
    **gaps: int,
) -> Evaluation:
    """An evaluation of four jobs of 100 s with limits of 1000 s, and mean waits as given."""
    trace = Trace.from_arrays(
        {"submit_time": [0.0] * 4, "run_time": [100.0] * 4, "req_time": [1000.0] * 4, "req_procs": [1] * 4},
        LogInfo(max_procs=8.0),
    )
    everyone = np.ones(4, bool)
    said = {"requested": np.full(4, 1000.0), "last_2": np.full(4, points)}
    scores = Scores(trace, "honest", "req", said, dict.fromkeys(said, 0.0), everyone, 0)
    outcomes = [
        Outcome(p, s, None, {"jobs": 4, "mean_wait_s": w, "p95_wait_s": 900.0 if s == "requested" else tail})
        for (p, s), w in waits.items()
    ]  # type: ignore[arg-type]
    checked = Validity(
        jobs=4,
        all_jobs=4,
        recorded_mean_wait_s=600.0 * ratio,
        simulated_mean_wait_s=600.0,
        recorded_median_wait_s=60.0,
        simulated_median_wait_s=60.0,
        uncovered=gaps,
        uncovered_jobs=max(gaps.values(), default=0),
        **(more or {}),
    )
    return Evaluation(
        trace, everyone, "req", scores, outcomes, checked if waits else None, "" if waits else "No size.", ()
    )


def text(evaluation: Evaluation) -> str:
    return " ".join(opening(evaluation))


GOOD = {("easy", "requested"): 600.0, ("easy", "last_2"): 450.0, ("easy", "actual"): 300.0}
BAD = {("easy", "requested"): 600.0, ("easy", "last_2"): 900.0, ("easy", "actual"): 300.0}


def test_a_gain_is_told_in_steps_with_what_to_try() -> None:
    words = text(found(GOOD))
    assert "Half of the jobs use less than 10 % of their limit" in words
    assert "EASY with last_2 has the shortest: 7 min 30 s (25 % shorter)" in words
    assert (
        "forecasts in place of limits (last_2) by -2 min 30 s; perfect knowledge of run times by -2 min 30 s" in words
    )
    assert "Worth a trial first: EASY with last_2, the users' limits still ending jobs" in words


def test_harm_is_told_as_harm() -> None:
    words = text(found(BAD))
    assert "Nothing that was tried has a shorter mean wait" in words
    harm = " ".join(harm_words(found(BAD)))
    assert "Forecasts can also do harm: EASY with last_2 would make jobs wait longer than today" in harm
    assert "Stay with EASY with users' limits" in words
    assert "Worth a trial" not in words


def test_a_forecast_worse_than_the_limit_is_said_to_be() -> None:
    assert "worse than the limits' 15 min" in text(found(GOOD, points=5000.0))


def test_what_is_the_order_and_what_is_the_forecast_are_told_apart() -> None:
    waits = {("forecast", spec): wait for spec, wait in (("requested", 400.0), ("last_2", 300.0), ("actual", 200.0))}
    words = text(found({**GOOD, **waits}))
    assert "the order alone (shortest first by users' limits) by -3 min 20 s" in words
    assert "forecasts in place of limits (last_2) by -1 min 40 s" in words
    assert "Worth a trial first: shortest first with last_2" in words


def test_where_limits_do_as_well_it_says_so() -> None:
    waits = {("easy-sjbf", spec): wait for spec, wait in (("requested", 400.0), ("last_2", 420.0), ("actual", 380.0))}
    words = text(found({**GOOD, **waits}))
    assert "Worth a trial first: EASY-SJBF with users' limits, which needs no forecasts" in words
    assert "No forecast tried is clearly better there than users' limits" in words


def test_longer_tails_are_named_as_the_price() -> None:
    assert "one job in twenty would wait 30 min or more, against 15 min today" in text(found(GOOD, tail=1800.0))
    assert "The price" not in text(found(GOOD))


@pytest.mark.parametrize("ratio", [4.8, 0.2, float("nan")])
def test_of_a_simulation_that_is_not_believed_no_gain_is_told(ratio: float) -> None:
    evaluation = found(GOOD, ratio=ratio) if ratio == ratio else found(GOOD, more={"wait_distance": 0.5})
    words = text(evaluation)
    assert "How much sooner jobs could start is not said" in words
    assert "machine capture" in words
    for claim in CLAIMS:
        assert claim not in words
    assert "not to be trusted" in validity_line(evaluation).text or ratio != ratio


@pytest.mark.parametrize("over", [0.0, 0.5])
def test_a_learned_machine_that_is_not_believed_says_what_the_log_lacks(over: float) -> None:
    evaluation = found(GOOD, ratio=4.8, more={"policy": "slurm_learned", "over_share": over})
    assert "Next: export the users too" in text(evaluation)
    named = Trace.from_arrays({"submit_time": [0.0] * 4, "user_id": ["ada"] * 4}).column("user_id")
    words = text(replace(evaluation, trace=evaluation.trace.with_columns({"user_id": named})))
    assert "batchcast machine learn LOG -o machine.toml" in words
    assert "--procs-total" not in words


def test_the_other_way_round_is_said_the_other_way_round() -> None:
    assert "the simulated mean is 4.0 times the recorded one" in validity_line(found(GOOD, ratio=0.25)).text
    assert "recorded, nobody waited" in validity_line(found(GOOD, ratio=0.0)).text


def test_what_is_not_to_be_trusted_is_said_before_the_tables_and_first() -> None:
    far, close = validity_line(found(GOOD, ratio=4.8)), validity_line(found(GOOD, ratio=1.2))
    assert far.text.index("not to be trusted") < far.text.index("Recorded, ")
    table = Table("waits", [], [])
    assert with_judgement([table], far) == [far, table]
    assert with_judgement([table], close) == [table, close]


def test_a_close_simulation_may_compare_policies() -> None:
    line = validity_line(found(GOOD, ratio=1.2))
    assert line.tone == "good"
    assert "not to be trusted" not in line.text


def test_waits_that_agree_where_the_model_covers_hardly_a_job_are_no_proof() -> None:
    line = validity_line(found(GOOD, ratio=1.2, memory=3))
    assert line.tone == "note"
    assert "does not cover 75.0 % of the jobs (75.0 % asked for memory" in line.text
    assert "close enough" not in line.text
    assert "by chance" in line.text


def test_without_a_machine_nothing_is_claimed() -> None:
    evaluation = found({})
    assert "No size." in text(evaluation)
    assert "not to be trusted" in validity_line(evaluation).text


def test_where_nobody_waits_there_is_nothing_to_gain_if_the_record_says_so_too() -> None:
    waits = dict.fromkeys(GOOD, 0.2)
    assert "nothing for a forecast to gain" in text(found(waits))
    far = text(found(waits, ratio=1000.0))
    assert "nothing for a forecast to gain" not in far
    assert "Worth a trial" not in far


CLAIMS = ("Worth a trial", "shortest", "nothing for a forecast to gain", "Each step", "Stay with", "shorter", "harm")
"""Words that conclude something from a simulation."""
SPECS = ("requested", "last_2", "kernel", "actual")
TABLES = st.dictionaries(
    st.sampled_from([(p, s) for p in ("easy", "easy-sjbf", "forecast") for s in SPECS]),
    st.floats(0.0, 1e6).map(round).map(float),
)


@given(TABLES, st.floats(0.0, 100.0), st.floats(0.0, 0.6))
def test_every_sentence_and_tile_holds_for_every_table(
    waits: dict[tuple[str, str], float], ratio: float, distance: float
) -> None:
    whole = {(p, s): waits.get((p, s), 900.0) for p in ("easy", "easy-sjbf", "forecast") for s in SPECS}
    evaluation = found(whole, ratio=ratio, more={"wait_distance": distance})
    words, tiles = " ".join(gain_sentences(evaluation)), cards(evaluation).cards
    rows = [row for row in evaluation.schedule_rows() if row["predictor"] != "actual"]
    today, least = rows[0]["mean_wait_s"], min(row["mean_wait_s"] for row in rows)
    believed = evaluation.validity is not None and evaluation.validity.trusted
    if not believed:
        assert not [claim for claim in CLAIMS if claim in words]
        assert {tile.tone for tile in tiles} <= {None, "warning"}
        return
    if today < 10.0:
        assert "nothing for a forecast to gain" in words
        return
    named = re.search(r"Of all that was tried, (.*?) has the shortest: (.*?) \(", words)
    assert (named is None) == (least == today)
    if named:
        assert named[2] == span(least)
        assert any(plan_words(row) == named[1] and row["mean_wait_s"] == least for row in rows)
    trial = re.search(r"Worth a trial first: (.*?), ", words)
    assert (trial is None) == (least > 0.98 * today)
    tile = next((tile for tile in tiles if tile.title == "Worth a trial first"), None)
    assert (tile is None) == (trial is None)
    if trial and tile:
        assert trial[1] == tile.value
        best = next(row for row in rows if plan_words(row) == trial[1])
        assert ("clearly better there" in words) == (best["predictor"] == "requested")
        others = [row["mean_wait_s"] for row in rows if row["predictor"] == best["predictor"] == "requested"]
        assert best["mean_wait_s"] == (min(others) if others else least)


def test_forecasts_without_their_fields_are_not_called_the_best() -> None:
    log = Trace.from_arrays({"submit_time": [0.0, 9.0], "run_time": [5.0, 6.0], "req_time": [60.0, 60.0]})
    words = text(evaluate(log, predictor=["last_2", "recent_mean"]))
    assert "The log does not hold user_id and procs, so the forecasts tried here can only repeat the limits." in words
    assert "best forecast" not in words
