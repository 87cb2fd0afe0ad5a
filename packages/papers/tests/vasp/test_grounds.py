"""Tests that a method without its feature columns says that its fallback answered."""

from batchcast.events.recorded import replay
from batchcast.predict.protocol import Grounds
from batchcast.predict.registry import make
from batchcast.testing.logs import small_log


def test_a_method_without_its_columns_says_who_answered():
    log = small_log(60)
    told = replay(log, {"it": make("runtime", "irpa"), "other": make("runtime", "recent_mean")})
    assert set(told["it"].grounds) == {Grounds.FALLBACK}
    assert told["it"].points.tolist() == told["other"].points.tolist()
