"""Tests curves minus one of them: exact at every drawn point, the first shown if curves coincide, none lost."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from batchcast.metrics.curves import cdf_gap
from batchcast.report.difference import CURVES, Gap, cdf_minus, or_minus
from batchcast.report.figures import cdf, lines

samples = st.lists(st.one_of(st.integers(0, 50).map(float), st.just(float("nan"))), min_size=1, max_size=60)


@given(samples, samples, st.integers(2, 9))
def test_each_point_is_the_difference_of_two_shares(one: list[float], other: list[float], points: int) -> None:
    known = [[v for v in values if v == v] for values in (one, other)]
    x, gap = cdf_gap(np.array(one), np.array(other), points)
    if not all(known):
        assert len(x) == 0
        return
    for place, value in zip(x.tolist(), gap.tolist()):
        shares = [sum(v <= place for v in values) / len(values) for values in known]
        assert abs(value - (shares[0] - shares[1])) < 1e-9
    assert x[-1] == max(max(values) for values in known)
    assert gap[-1] == 0


def waits(shift: float) -> dict[str, np.ndarray]:
    same = np.arange(1.0, 1001.0)
    return {"requested": same, "last_2": same + shift}


def test_curves_that_lie_on_each_other_are_shown_as_differences_first() -> None:
    near, far = (cdf_minus(cdf("w", waits(s), x="wait"), waits(s), "requested", "up is good.") for s in (5.0, 500.0))
    assert near.pick == ("minus requested", CURVES)
    assert far.pick == (CURVES, "minus requested")
    assert "last_2 -0.5 points" in near.alt
    drawn = [trace for trace in near.data if trace["meta"]["variant"] == "minus requested"]
    assert [trace["name"] for trace in drawn] == ["last_2"]
    assert min(drawn[0]["y"]) == -0.005
    assert near.layouts["minus requested"]["yaxis"]["title"]["text"] == "share of jobs, minus requested"


def test_what_has_no_difference_stays_in_sight() -> None:
    figure = lines("q", {"recorded": ([1, 2], [9.0, 9.0]), "requested": ([1, 2], [5.0, 5.0]),
                         "last_2": ([1, 2], [5.1, 5.0])}, x="day", y="queue")  # fmt: skip
    both = or_minus(figure, {"last_2": Gap([1, 2], np.array([0.1, 0.0]))}, "requested", "left out: the record.")
    assert both.pick == (CURVES, "minus requested")
    assert {t["name"] for t in both.data if t["meta"]["variant"] == CURVES} == {"recorded", "requested", "last_2"}


def test_where_nothing_differs_there_is_nothing_to_choose() -> None:
    figure = cdf("w", waits(0.0), x="wait")
    assert cdf_minus(figure, waits(0.0), "requested", "") is figure
