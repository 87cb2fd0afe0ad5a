"""Tests that the conformance suite finds the faults that it is meant to find."""

import pytest

from batchcast.events.event import End, Submit
from batchcast.predict.protocol import Prediction
from batchcast.predict.runtime.baselines import RecentMean, Requested
from batchcast.testing import check_predictor


class Peeks(Requested):
    """Receives the true run times without declaring it."""

    def __init__(self, answers):
        super().__init__()
        self.answers = answers

    def predict(self, job, at):
        return Prediction(max(float(sum(r for r in self.answers if r == r)), 1.0))


class Counts(Requested):
    """Breaks the rule that `predict` is pure: counts its calls and predicts the count."""

    asked = 0

    def predict(self, job, at):
        self.asked += 1
        return Prediction(float(self.asked))


class Zero(Requested):
    """A negative time."""

    def predict(self, job, at):
        return Prediction(0.0)


class Crosses(Requested):
    """Quantiles that cross."""

    def predict(self, job, at):
        return Prediction(5.0, (0.1, 0.9), (9.0, 2.0))


class NoHistory(RecentMean):
    """Fails before the first End."""

    def predict(self, job, at):
        return Prediction(self.last)

    def observe(self, event, at):
        if isinstance(event, End):
            self.last = max(event.run_time, 1.0)


class KeepsALambda(Requested):
    """Cannot be stored."""

    def observe(self, event, at):
        if isinstance(event, Submit):
            self.note = lambda: None


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda t: Peeks(t.run_time), "with later data"),
        (lambda t: Counts(), "two calls of predict"),
        (lambda t: Zero(), "less than"),
        (lambda t: Crosses(), "cross"),
    ],
)
def test_a_faulty_predictor_is_named(make, says):
    with pytest.raises(AssertionError, match=says):
        check_predictor(make)


@pytest.mark.parametrize("make", [lambda t: NoHistory(), lambda t: KeepsALambda()])
def test_a_predictor_that_breaks_is_not_passed(make):
    with pytest.raises((AttributeError, TypeError, Exception)):
        check_predictor(make)
