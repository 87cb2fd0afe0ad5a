"""Tests what a prediction contains, and that code reads its `grounds`, not its text."""

import math
import pickle

import numpy as np
import pytest

from batchcast.events.recorded import replay
from batchcast.job import JobRequest
from batchcast.predict.fallback import LargestLimit
from batchcast.predict.protocol import Distribution, Grounds, Prediction
from batchcast.predict.registry import make
from batchcast.testing.logs import small_log


def test_a_prediction_cannot_be_changed_or_given_more():
    answer = Prediction(5.0)
    with pytest.raises(AttributeError):
        answer.point = 6.0
    assert not hasattr(answer, "__dict__")
    assert pickle.loads(pickle.dumps(answer)) == answer


def test_grounds_are_stored_as_text_and_come_back():
    for grounds in Grounds:
        assert Grounds(str(grounds)) is grounds


def test_a_replay_keeps_the_grounds_of_every_answer():
    log = small_log(60)
    ask = np.arange(60) % 2 == 0
    told = replay(log, {"it": make("runtime", "recent_mean")}, ask=ask)["it"]
    assert [grounds != "" for grounds in told.grounds] == ask.tolist()
    assert {*told.grounds} - {""} <= {Grounds.LIMIT, Grounds.CLASS, Grounds.OWN_HISTORY}
    assert told.grounds[0] == Grounds.LIMIT


@pytest.mark.parametrize("unknown", [math.nan, math.inf])
def test_a_job_without_a_limit_gets_the_largest_seen_before_it_else_a_day(unknown):
    limits = LargestLimit()
    job = JobRequest(0, 1, 0.0, 1.0, unknown, math.nan)
    assert limits.forecast(job).point == 86400.0
    for seen in (60.0, 7200.0, 600.0, unknown):
        limits.note(seen)
    answer = limits.forecast(job)
    assert (answer.point, answer.grounds) == (7200.0, Grounds.LIMIT)


def test_a_distribution_is_anything_that_answers_chance_and_given():
    class Even:
        def chance(self, span):
            return 0.5

        def given(self, elapsed):
            return self

    assert isinstance(Even(), Distribution)
