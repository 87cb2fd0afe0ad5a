"""Tests the clock that answers a portal: it is loaded again when the collector has advanced, for a bounded share of the
time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from batchcast.service.answers import forecaster


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A fake clock: `now`, the duration `takes` of a load, and the number of loads. `ask(told)` asks for an answer
    after the collector has reached the instant `told`."""
    at = SimpleNamespace(now=1000.0, takes=0.0, loads=0)

    def load(*_: Any) -> forecaster.Forecaster:
        at.now, at.loads = at.now + at.takes, at.loads + 1
        return forecaster.Forecaster(SimpleNamespace(state=SimpleNamespace(now=0.0)), {})

    def ask(told: float) -> None:
        memory = {"told_until": told}
        forecaster._clock(SimpleNamespace(settings={"store": "s"}, cluster="c", memory=memory, now=told), 0.0)

    monkeypatch.setattr(forecaster, "forecaster", load)
    monkeypatch.setattr(forecaster.time, "monotonic", lambda: at.now)
    monkeypatch.setattr(forecaster, "_loaded_clock", None)
    at.ask = ask
    return at


def test_a_first_load_that_compiled_for_half_a_minute_does_not_hold_up_the_second(clock: SimpleNamespace) -> None:
    clock.takes = 30.0
    clock.ask(1.0)
    clock.takes = 0.1
    clock.now += 1.0
    clock.ask(2.0)
    assert clock.loads == 2, "a job that has started since is known"


def test_a_clock_that_takes_long_to_load_answers_from_what_it_holds(clock: SimpleNamespace) -> None:
    clock.takes = 5.0
    clock.ask(1.0)
    clock.ask(2.0)
    clock.now += forecaster.SHARE * clock.takes - 6.0
    clock.ask(3.0)
    assert clock.loads == 2
    clock.now += 7.0
    clock.ask(3.0)
    assert clock.loads == 3
