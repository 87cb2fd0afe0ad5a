"""Tests scoring on the recorded clock: which jobs are scored, which are counted, and how groups are formed."""

from __future__ import annotations

import numpy as np
import pytest

from batchcast.errors import UsageError
from batchcast.evaluation.accuracy import figures, groups, score
from batchcast.events.setup import RunSetup
from batchcast.table import LogInfo, Trace

NAN = float("nan")


def log(**columns: list) -> Trace:
    base = {
        "submit_time": [0.0, 100.0, 200.0, 300.0],
        "wait_time": [0.0, 0.0, 0.0, 0.0],
        "run_time": [10.0, 30.0, NAN, 50.0],
        "req_time": [600.0, 600.0, 600.0, 600.0],
        "req_procs": [1, 4, 16, 64],
        "user_id": ["ada", "ada", "bob", "ada"],
    }
    return Trace.from_arrays({**base, **columns})


def by_name(scores) -> dict:
    return {row["predictor"]: row for row in figures(scores)}


def test_jobs_that_never_ran_are_counted_not_scored() -> None:
    scores = score(log(), ["requested", "last_2"])
    assert scores.never_ran == 1
    assert by_name(scores)["requested"]["jobs"] == 3
    assert by_name(scores)["last_2"]["mae_s"] == pytest.approx((590 + 20 + 30) / 3)


def test_a_score_mask_learns_from_everything_and_scores_a_part() -> None:
    scores = score(log(), ["last_2"], mask=np.array([False, False, False, True]))
    assert int(scores.scored.sum()) == 1
    assert by_name(scores)["last_2"]["mae_s"] == 30  # predicted: the mean of 10 and 30


def test_the_paper_protocol_knows_what_is_still_running() -> None:
    running = log(submit_time=[0.0, 1.0, 2.0, 3.0])
    assert by_name(score(running, ["last_2"]))["last_2"]["mae_s"] == pytest.approx((590 + 570 + 550) / 3)
    paper = score(running, ["last_2"], RunSetup(protocol="paper"))
    assert by_name(paper)["last_2"]["mae_s"] == pytest.approx((590 + 20 + 30) / 3)


def test_the_oracle_is_right_and_named() -> None:
    scores = score(log(), ["actual", "last_2:need=2,round=down"])
    assert by_name(scores)["actual"]["mae_s"] == 0
    assert all(row.seconds >= 0 for row in scores.rows.values())


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("user", {"ada": 3}),
        ("size", {"1": 1, "2-4": 1, "17-64": 1}),
        ("queue", {"unknown": 3}),
        ("month", {"1970-01": 3}),
    ],
)
def test_groups_split_the_scored_jobs(by: str, expected: dict[str, int]) -> None:
    rows = figures(score(log(), ["last_2"]), by)
    assert {row["group"]: row["jobs"] for row in rows} == expected
    assert {row["by"] for row in rows} == {by}


def test_months_begin_at_local_midnight() -> None:
    new_year = 1072911600.0  # 2004-01-01 00:00 in Stockholm, 2003-12-31 23:00 UTC
    info = LogInfo(unix_start=new_year, timezone="Europe/Stockholm")
    trace = Trace.from_arrays({"submit_time": [-1.0, 0.0, 31 * 86400.0]}, info)
    codes, names = groups(trace, "month")
    assert [names[k] for k in codes] == ["2003-12", "2004-01", "2004-02"]


def test_a_wrong_grouping_names_the_right_ones() -> None:
    with pytest.raises(UsageError, match="user, queue, size, month"):
        groups(log(), "colour")


def test_refit_reaches_the_predictor_through_the_watch() -> None:
    from time import perf_counter

    from batchcast.events.recorded import replay
    from batchcast.predict.batched import Timed
    from batchcast.predict.protocol import Prediction

    class Counting:
        refit_every_jobs = 2
        calls = 0

        def predict(self, job, at):
            return Prediction(1.0)

        def observe(self, event, at):
            pass

        def refit(self, now):
            self.calls += 1

    inner = Counting()
    replay(log(), {"counting": Timed(inner, perf_counter)})
    assert inner.calls == 1
