"""Slurm's answers as the client understands them."""

from __future__ import annotations

import pytest

from batchcast.errors import Unreachable
from batchcast.slurm.client import Slurm
from batchcast.slurm.transport import Answer

NOW = 1_700_000_000.0


class Says:
    """A transport whose every answer is one text, asked at NOW + 0.4 and given at NOW + 0.9."""

    def __init__(self, text: str | None) -> None:
        self.text = text

    def now(self) -> float:
        return NOW + 0.9

    def ask(self, command: object) -> Answer:
        if self.text is None:
            raise Unreachable("refused")
        return Answer(self.text, "", NOW + 0.4)


@pytest.mark.parametrize(("stamp", "ahead"), [(0, 0.0), (-1, 0.4), (-30, 29.4), (30, -29.1)])
def test_how_far_the_clocks_are_apart_is_never_overstated(stamp: int, ahead: float) -> None:
    text = f"*****\nsdiag output at Sat Nov 21 12:00:00 2026 ({NOW + stamp:.0f})\nData since ...\n"
    assert Slurm(Says(text)).clock_ahead() == pytest.approx(ahead, abs=1e-3)


@pytest.mark.parametrize("text", [None, "", "sdiag output at noon"])
def test_clocks_that_nobody_compares_are_unknown(text: str | None) -> None:
    assert Slurm(Says(text)).clock_ahead() is None
