"""Runs the public conformance suite on every registered wait predictor, with settings small enough for their
searches."""

import math

import pytest

from batchcast.events.event import Start, Submit
from batchcast.events.live import LiveClock, LiveJob, live_events
from batchcast.events.recorded import replay
from batchcast.job import DELIVERED_GONE, DELIVERED_START, TOLD_SUBMIT
from batchcast.predict.registry import available, make, parse_spec
from batchcast.testing.logs import odd_logs, small_log
from batchcast.testing.predictor import WAIT_CHECKS, batch_path_on_every_clock, queued_waits_are_censored

SMALL = {
    "forecast": "forecast:window=80,first=50,every=30,step=10",
    "ibl": "ibl:window=40,train=50,wide=10,sweeps=1",
    "qbets": "qbets:recluster=30,keep=60",
    "pqstar": "pqstar:threshold=100,fallback=recent_wait",
}
UNFITTED = "forecast:first=1000,cancelled=skip"
"""The full settings take half a minute and repeat what the small ones do before the first fit, so they are in the long
tier."""
MORE = (
    "pqstar:threshold=100,fallback=none,reading=tables,large=root,missing=fails,point=threshold,cancelled=skip",
    "pqstar:threshold=100",
    UNFITTED,
    "ibl:search=no,cancelled=skip",
    "ibl:reading=text,window=40,wide=10,k=7",
    "log_uniform:by=queue,need=5,keep=30",
    "log_uniform:by=size,need=5",
    "recent_wait:k=3,need=1,cancelled=skip",
    "scheduler_replay:policy=fcfs",
    "scheduler_replay:policy=easy-sjbf,runtime=last_2",
    "qbets:recluster=30,keep=60,q=0.5,c=0.8,cancelled=skip",
    "qbets:reading=tables,recluster=30",
)
SPECS = [SMALL.get(name, name) for name in available("wait")]
SPECS += [spec for spec in MORE if parse_spec(spec)[0] in available("wait")]  # the papers may not be installed


EACH = [
    pytest.param(
        spec,
        check,
        id=f"{spec}-{check.__name__}",
        marks=[pytest.mark.long]
        if spec == UNFITTED
        or (spec == SMALL["forecast"] and check in (queued_waits_are_censored, batch_path_on_every_clock))
        else [],
    )
    for spec in SPECS
    for check in WAIT_CHECKS
]


@pytest.mark.parametrize(("spec", "check"), EACH)
def test_passes(spec, check):
    check(lambda trace: make("wait", spec), small_log(100))


@pytest.mark.parametrize("odd", [None, "missing fields", "absurd values"])
@pytest.mark.parametrize("spec", [pytest.param(s, marks=[pytest.mark.long] * (s == UNFITTED)) for s in SPECS])
def test_answers_on_the_live_clock_as_on_the_recorded_one(spec, odd):
    """A live state of unknown machine size, with jobs without user, size or time limit, whose clock is restarted in the
    middle."""
    log = small_log(60) if odd is None else odd_logs()[odd]
    live = []
    for record in log.records():
        start = record.request.submit_time + max(record.wait_time, 0.0)
        ran = record.run_time == record.run_time
        end = start + record.run_time if ran else start
        live.append(LiveJob(record.request, start if ran else math.nan, end, record.status))
    middle, said = float(log.submit_time[len(log) // 2]), {}
    clock = LiveClock({"it": make("wait", spec)}, math.nan)
    for until in (middle, math.inf):
        for event in live_events(live, until):
            answers = clock.tell(event)
            if answers:
                said[event.job.row] = answers["it"]
            bit = {Submit: TOLD_SUBMIT, Start: DELIVERED_START}.get(type(event), DELIVERED_GONE)
            live[event.job.row] = live[event.job.row]._replace(told=live[event.job.row].told | bit)
        clock = LiveClock({"it": make("wait", spec)}, math.nan)
        for event in live_events(live, math.inf, only=7):
            clock.tell(event, ask=False)
    wanted = replay(log, {"it": make("wait", spec)})["it"]
    assert [said[row].point for row in range(len(log))] == wanted.points.tolist()
    assert [said[row].basis for row in range(len(log))] == list(wanted.basis)
    assert [said[row].grounds for row in range(len(log))] == list(wanted.grounds)
    for answer in said.values():
        assert (answer.grounds == "no_history") == answer.basis.startswith("no history")
