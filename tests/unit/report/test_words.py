"""The opening sentences follow the numbers' signs, and the validity line is never missing."""

from __future__ import annotations

import numpy as np

from batchcast.evaluation.accuracy import Scores
from batchcast.evaluation.evaluation import Evaluation, Outcome, evaluate
from batchcast.evaluation.validity import Validity
from batchcast.report.evaluation.words import opening
from batchcast.report.validity import validity_line
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
    scores = Scores(trace, "honest", "req", said, dict.fromkeys(said, 0.0), everyone, 0, 0, frozenset())
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


def test_a_gain_is_told_with_its_share_and_a_step() -> None:
    words = text(found(GOOD))
    assert "half of the jobs use less than 10 % of their limit" in words
    assert "7 min 30 s (25 % shorter than with the limits there)" in words
    assert "50 % of what perfect knowledge would give" in words
    assert "Worth a trial first: EASY planned with last_2" in words


def test_harm_is_told_as_harm() -> None:
    words = text(found(BAD))
    assert "No forecast tried here shortens the waits" in words
    assert "50 % longer than with the limits there" in words
    assert "-100 % of what perfect knowledge would give" in words
    assert "Worth a trial" not in words


def test_a_forecast_worse_than_the_limit_is_said_to_be() -> None:
    assert "worse than the limits' 15 min" in text(found(GOOD, points=5000.0))


def test_what_truth_does_not_gain_has_no_share() -> None:
    waits = {**GOOD, ("easy", "actual"): 700.0}
    words = text(found(waits))
    assert "not below the limits' mean" in words
    assert "% of what perfect knowledge" not in words


def test_next_to_nothing_to_gain_has_no_share() -> None:
    waits = {("easy", "requested"): 900.0, ("easy", "last_2"): 870.0, ("easy", "actual"): 890.0}
    evaluation = found(waits)
    assert "% of what perfect knowledge" not in text(evaluation)
    assert "hardly below the limits' mean" in text(evaluation)
    assert all(row["share_of_perfect"] != row["share_of_perfect"] for row in evaluation.schedule_rows())
    few = found({("easy", "requested"): 8.0, ("easy", "last_2"): 3.0, ("easy", "actual"): 6.5})
    assert "nothing for a forecast to gain" in text(few)
    assert all(row["share_of_perfect"] != row["share_of_perfect"] for row in few.schedule_rows())


def test_better_than_the_truth_is_explained_and_no_share() -> None:
    words = text(found({**GOOD, ("easy", "last_2"): 200.0}))
    assert "the forecast's mean is below it" in words
    assert "% of what perfect knowledge" not in words


def test_forecasts_that_change_nothing_are_said_to_change_nothing() -> None:
    words = text(found({("easy", "requested"): 600.0, ("easy", "last_2"): 601.0, ("easy", "actual"): 540.0}))
    assert "they wait as long; knowing every run time beforehand would give 9 min (10 % shorter) under EASY" in words
    assert "harm" not in words


def test_a_policy_that_needs_no_forecasts_is_preferred_where_it_is_better() -> None:
    waits = {("easy-sjbf", spec): wait for spec, wait in (("requested", 400.0), ("last_2", 420.0), ("actual", 380.0))}
    words = text(found({**GOOD, **waits}))
    assert "Worth a trial first: EASY-SJBF with the limits users give today, which needs no forecasts" in words
    assert "The limits alone give 6 min 40 s under EASY-SJBF" in words


def test_longer_tails_are_named_as_the_price() -> None:
    assert "one job in twenty would wait 30 min or more, against 15 min" in text(found(GOOD, tail=1800.0))
    assert "The price" not in text(found(GOOD))


def test_gains_in_doubt_are_no_advice() -> None:
    evaluation = found(GOOD, ratio=4.8)
    assert "Worth a trial" not in text(evaluation)
    assert text(evaluation).index("Do not decide on the simulated waits that follow") < text(evaluation).index("EASY")
    line = validity_line(evaluation)
    assert line.tone == "warning"
    assert "the recorded mean is 4.8 times the simulated one" in line.text
    assert "not to be trusted" in line.text


def test_the_other_way_round_is_said_the_other_way_round() -> None:
    assert "the simulated mean is 4.0 times the recorded one" in validity_line(found(GOOD, ratio=0.25)).text
    assert "recorded, nobody waited" in validity_line(found(GOOD, ratio=0.0)).text


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


def test_where_nobody_waits_there_is_nothing_to_gain() -> None:
    words = text(found(dict.fromkeys(GOOD, 0.2), ratio=1000.0))
    assert "nothing for a forecast to gain" in words
    assert "Worth a trial" not in words


def test_forecasts_without_their_fields_are_not_called_the_best() -> None:
    log = Trace.from_arrays({"submit_time": [0.0, 9.0], "run_time": [5.0, 6.0], "req_time": [60.0, 60.0]})
    words = text(evaluate(log, predictors=["last_2", "recent_mean"]))
    assert "The log does not hold user_id and procs, so the forecasts tried here can only repeat the limits." in words
    assert "best forecast" not in words
