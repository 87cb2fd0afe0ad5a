"""Tests that the small settings of the conformance suite reach the fits and histories of the papers' wait methods."""

from tests.checks.test_wait_predictors import SMALL

from batchcast.events.recorded import replay
from batchcast.predict.registry import make
from batchcast.testing.logs import small_log


def test_small_settings_do_reach_the_search_and_the_clusters():
    """Without a fit the suite would test only the untrained methods."""
    ibl, qbets = make("wait", SMALL["ibl"]), make("wait", SMALL["qbets"])
    replay(small_log(100), {"ibl": ibl, "qbets": qbets})
    assert ibl.tuned is not None
    assert len(qbets.centers) > 1


def test_small_settings_do_reach_every_history():
    """Checks that the suite's log makes `pqstar` mark jobs by the near, the mid and the far history, and leave some
    unmarked."""
    method = make("wait", "pqstar:threshold=100,fallback=none")
    words = {basis.split()[0] for basis in method.predict_trace(small_log(400), total=24.0).basis}
    assert words == {"near", "mid", "far", "not"}
