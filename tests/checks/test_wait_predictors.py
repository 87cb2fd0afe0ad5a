"""The public conformance suite over every registered wait predictor, with settings small enough to be searched."""

import pytest

from batchcast.events.recorded import replay
from batchcast.predict.registry import available, make
from batchcast.testing.logs import small_log
from batchcast.testing.wait import CHECKS

SMALL = {
    "ibl": "ibl:window=40,train=50,wide=10,sweeps=1",
    "qbets": "qbets:recluster=30,keep=60",
    "pqstar": "pqstar:threshold=100,fallback=recent_wait",
}
MORE = (
    "pqstar:threshold=100,fallback=none,reading=tables,large=root,missing=fails,point=threshold,cancelled=skip",
    "pqstar:threshold=100",
    "ibl:search=no,cancelled=skip",
    "log_uniform:by=queue,need=5,keep=30",
    "log_uniform:by=size,need=5",
    "recent_wait:k=3,need=1,cancelled=skip",
    "scheduler_replay:policy=fcfs",
    "scheduler_replay:policy=easy-sjbf,runtime=last_2",
    "qbets:recluster=30,keep=60,q=0.5,c=0.8,cancelled=skip",
)
SPECS = [SMALL.get(name, name) for name in available("wait")] + list(MORE)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("spec", SPECS)
def test_passes(spec, check):
    check(lambda trace: make("wait", spec), small_log(100))


def test_small_settings_do_reach_the_search_and_the_clusters():
    """Else the suite would only ever look at the untrained methods."""
    ibl, qbets = make("wait", SMALL["ibl"]), make("wait", SMALL["qbets"])
    replay(small_log(100), {"ibl": ibl, "qbets": qbets})
    assert ibl.tuned is not None
    assert len(qbets.centers) > 1


def test_small_settings_do_reach_every_history():
    """The suite's log makes marks of the near, the mid and the far history, and leaves some unmarked."""
    method = make("wait", "pqstar:threshold=100,fallback=none")
    words = {basis.split()[0] for basis in method.predict_trace(small_log(400), total=24.0).basis}
    assert words == {"near", "mid", "far", "not"}
