"""The cards of the first screen say what the tables below them hold, and promise nothing that stands in doubt."""

from __future__ import annotations

import numpy as np

from batchcast.evaluation.evaluation import Evaluation, evaluate
from batchcast.report.blocks import Card
from batchcast.report.evaluation.first_screen import cards
from batchcast.report.figures import span
from batchcast.table import LogInfo, Trace


def evaluated(wait: float, jobs: int = 600) -> Evaluation:
    rng = np.random.default_rng(5)
    run = np.ceil(rng.lognormal(6, 1, jobs))
    columns = {"submit_time": np.sort(rng.uniform(0, 86400, jobs)).round(), "wait_time": np.full(jobs, wait),
               "run_time": run, "req_time": 4 * run, "req_procs": rng.integers(1, 9, jobs),
               "user_id": rng.integers(0, 9, jobs)}  # fmt: skip
    return evaluate(Trace.from_arrays(columns, LogInfo(max_procs=16, max_procs_source="header")), predictor=["last_2"])


def by_title(found: Evaluation) -> dict[str, Card]:
    return {card.title: card for card in cards(found).cards}


def test_the_figures_are_those_of_the_tables() -> None:
    found = evaluated(3600.0)
    exact = found.trace.with_columns({"wait_time": found.outcomes[0].schedule.wait_time})
    found = evaluate(exact, predictor=["last_2"])
    shown = by_title(found)
    today = next(row for row in found.schedule_rows() if row["predictor"] == "requested")
    last = next(row for row in found.accuracy_rows() if row["predictor"] == "last_2")
    assert shown["Mean wait"].value == span(today["mean_wait_s"])
    assert shown["Mean wait"].note == f"EASY with users' limits, simulated; recorded {span(today['mean_wait_s'])}"
    assert shown["Smallest mean error"].value == span(last["mae_s"])
    assert shown["Used of the limit"].value == "25 %"


def test_a_simulation_far_from_the_record_promises_nothing() -> None:
    tiles = cards(evaluated(0.0)).cards
    assert tiles[0].title == "Used of the limit", "what the log itself says leads"
    assert (tiles[-1].title, tiles[-1].value, tiles[-1].tone) == ("Shorter waits", "Not known", "warning")
    assert not {"Worth a trial first", "Change in mean wait", "Mean wait", "Verdict"} & {tile.title for tile in tiles}


def test_a_log_without_a_machine_has_no_schedules_in_its_cards() -> None:
    log = Trace.from_arrays({"submit_time": [0, 60], "run_time": [60, 60], "req_time": [120, 120], "req_procs": [1, 1]})
    assert not {"Verdict", "Mean wait", "Worth a trial first"} & set(by_title(evaluate(log, predictor=["last_2"])))
