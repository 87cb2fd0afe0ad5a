"""Tests that figures have colors by name, round ticks, and a text for readers who cannot see them."""

from __future__ import annotations

import numpy as np
import pytest

from batchcast.report.figures import bars, cdf, linear_time_axis, lines, log_time_axis, span, tick


def test_one_method_keeps_one_colour() -> None:
    slots = {"requested": 0, "last_2": 1}
    first = bars("w", ["EASY"], {"last_2": [3.0]}, value="wait", slots=slots)
    second = lines("e", {"requested": ([1], [2.0]), "last_2": ([1], [2.0])}, x="jobs", y="MAE", slots=slots)
    assert first.data[0]["meta"] == second.data[1]["meta"] == {"slot": 1}


def test_a_cdf_stays_short_and_says_its_quantiles() -> None:
    figure = cdf("t", {"run time": np.arange(100_000.0)}, x="time")
    assert len(figure.data[0]["x"]) <= 500
    assert figure.data[0]["x"][0] >= 1  # a logarithmic axis has no zero
    assert "half at most 13 h 53 min" in figure.alt


def test_bars_carry_their_values_in_words() -> None:
    figure = bars("w", ["EASY", "SJBF"], {"last_2": [60.0, float("nan")]}, value="mean wait", kind="seconds")
    assert figure.data[0]["text"] == ["1 min", "unknown"]
    assert figure.data[0]["x"] == [60.0, None]
    assert "EASY 1 min" in figure.alt


@pytest.mark.parametrize("highest", [0.0, 3.0, 59.0, 3600.0, 86400.0 * 400])
def test_linear_ticks_are_few_and_cover(highest: float) -> None:
    values = linear_time_axis("wait", highest)["tickvals"]
    assert 2 <= len(values) <= 8
    assert values[-1] >= highest


def test_log_ticks_have_their_words() -> None:
    axis = log_time_axis("time")
    assert len(axis["tickvals"]) == len(axis["ticktext"])
    assert axis["ticktext"][axis["tickvals"].index(3600)] == "1 h"


@pytest.mark.parametrize(
    ("seconds", "words"), [(59.7, "1 min"), (86399.0, "1 d"), (-61.0, "-1 min 1 s"), (3599.0, "1 h")]
)
def test_spans_round_into_the_next_unit(seconds: float, words: str) -> None:
    assert span(seconds) == words


def test_unknown_has_no_span() -> None:
    assert span(float("nan")) == "unknown"
    assert tick(0.0) == "0"
