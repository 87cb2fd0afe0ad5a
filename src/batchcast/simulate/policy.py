"""Policy: who goes first, what may pass it, and what a plan becomes when a job outlives it."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import UsageError
from ..schedule import corrections, orders, state

BACKFILLS = {"none": state.NO_BACKFILL, "easy": state.EASY}
EVENT_ORDERS = {"instant": state.INSTANT, "pyss": state.PYSS}


@dataclass(frozen=True, slots=True)
class Policy:
    """A scheduling policy in the words of the command line; UsageError names the accepted ones.

    `order` decides the head, `backfill` what may pass it (`easy`: one reservation, Lifka 1995), `backfill_order` in
    which order candidates are tried, by planned run time; `correct` what a job is planned with after it outlived its
    plan; `kill` cuts a run at its request; `event_order` is DESIGN's (`instant`) or that of the reference schedules
    (`pyss`, which implies kill=False).

    >>> Policy(backfill_order="sjf").name
    'easy-sjbf'
    """

    order: str = "fcfs"
    backfill: str = "easy"
    backfill_order: str = "fcfs"
    correct: str = "requested"
    kill: bool = True
    event_order: str = "instant"

    def __post_init__(self) -> None:
        for option, value, accepted in (
            ("order", self.order, orders.NAMES),
            ("backfill", self.backfill, BACKFILLS),
            ("backfill-order", self.backfill_order, orders.NAMES),
            ("correct", self.correct, corrections.NAMES),
            ("event-order", self.event_order, EVENT_ORDERS),
        ):
            if value not in accepted:
                raise UsageError(f"--{option}: no {value!r} (accepted: {', '.join(accepted)})")
        if self.event_order == "pyss" and self.kill:
            object.__setattr__(self, "kill", False)

    @property
    def name(self) -> str:
        """Short name: fcfs, easy, easy-sjbf, sjf-easy, ..."""
        head = "" if self.order == "fcfs" else f"{self.order}-"
        if self.backfill == "none":
            return self.order
        tail = {"fcfs": "", "sjf": "-sjbf"}.get(self.backfill_order, f"-{self.backfill_order}")
        return f"{head}{self.backfill}{tail}"

    def registers(self) -> dict[str, int]:
        """The kernel's codes."""
        return {
            "backfill": BACKFILLS[self.backfill],
            "event_order": EVENT_ORDERS[self.event_order],
            "head_order": orders.NAMES[self.order],
            "candidate_order": orders.NAMES[self.backfill_order],
            "correction": corrections.NAMES[self.correct],
        }
