"""Policy: who goes first, what may pass it, and what a plan becomes when a job outlives it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import UsageError, check_word
from ..schedule import corrections, state
from .order import ON, parse_order

BACKFILLS = {"none": state.NO_BACKFILL, "easy": state.EASY, "conservative": state.CONSERVATIVE}
EVENT_ORDERS = {"instant": state.INSTANT, "pyss": state.PYSS}
OrderLike = str | Callable[..., float]


@dataclass(frozen=True, slots=True)
class Policy:
    """A scheduling policy in the words of the command line.

    Parameters
    ----------
    order
        Decides the head: a name with parameters, or a function (see `parse_order`).
    backfill
        What may pass the head: `easy` (one reservation), `conservative` (one for every job) or none.
    backfill_order
        In which order candidates are tried.
    correct
        What a job is planned with after it outlived its plan.
    kill
        Whether a run is cut at its request.
    event_order
        `instant`, or `pyss`: that of the reference schedules, which implies kill=False.
    running_ends
        What ends a running job in the plan of others: its `planned` or its `requested` run time.
    head_after
        Seconds: for a head that has waited longer, requests alone reserve, of running jobs and of candidates, so that
        no forecast can make it wait on.
    first_after
        Seconds: who has waited longer goes before the order, by arrival, with a reservation as under `head_after`.
    due_after
        Seconds: who waits by so much longer than in a shadow run of EASY by requests goes before the order in the same
        way. The shadow has the same submissions and knows a run time when the real job has ended.
    due_ends
        What ends a job in that shadow run that has not ended in the real one: its `requested` run time, or what it was
        first `planned` with, until it has run longer.
    risk_budget
        What may pass a job that is reserved for by requests though its own request does not fit: the chances that such
        jobs run on past the reserved start, read off the quantiles of their forecasts, add up to so much at most; 0:
        nothing may.
    refresh
        Whether queued jobs are planned anew when one like them (of the same user and request) ends: by the geometric
        mean of their plan and of such results since they were submitted, at most eight.

    Raises
    ------
    UsageError
        Names the word and the accepted ones.

    References
    ----------
    Lifka, The ANL/IBM SP scheduling system, JSSPP 1995, doi:10.1007/3-540-60153-8_35.
    Mu'alem, Feitelson, Utilization, predictability, workloads, and user runtime estimates in scheduling the IBM SP2
    with backfilling, IEEE TPDS 12(6), 2001, doi:10.1109/71.932708.

    Examples
    --------
    >>> Policy(backfill_order="sjf").name
    'easy-sjbf'
    >>> Policy(backfill="conservative").name
    'conservative'
    """

    order: OrderLike = "fcfs"
    backfill: str = "easy"
    backfill_order: OrderLike = "fcfs"
    correct: str = "requested"
    kill: bool = True
    event_order: str = "instant"
    running_ends: str = "planned"
    head_after: float = float("inf")
    first_after: float = float("inf")
    due_after: float = float("inf")
    due_ends: str = "requested"
    risk_budget: float = 0.0
    refresh: bool = False

    def __post_init__(self) -> None:
        for option, value, accepted in (
            ("backfill", self.backfill, BACKFILLS),
            ("correct", self.correct, corrections.NAMES),
            ("event-order", self.event_order, EVENT_ORDERS),
            ("running-ends", self.running_ends, ON),
            ("due-ends", self.due_ends, ON),
        ):
            check_word(option, value, accepted)
        for option, age in (
            ("head-after", self.head_after),
            ("first-after", self.first_after),
            ("due-after", self.due_after),
        ):
            if not age >= 0:
                raise UsageError(f"--{option}: not {age!r} (accepted: a time of 0 or more)")
        if not 0 <= self.risk_budget < float("inf"):
            raise UsageError(f"--risk-budget: not {self.risk_budget!r} (accepted: a sum of chances, 0 or more)")
        parse_order(self.order), parse_order(self.backfill_order, "backfill-order")
        if self.backfill == "conservative":
            self._refuse_for_conservative()
        if self.event_order == "pyss" and self.due_after != float("inf"):
            raise UsageError("--due-after: the shadow run knows the event order `instant` alone", hint="without pyss")
        if self.event_order == "pyss" and self.kill:
            object.__setattr__(self, "kill", False)

    def _refuse_for_conservative(self) -> None:
        """One reservation each, in order of arrival, by one estimate: there is nothing else to choose."""
        given = {
            "order": self.order != "fcfs",
            "backfill-order": self.backfill_order != "fcfs",
            "running-ends": self.running_ends != "planned",
            "head-after": self.head_after != float("inf"),
            "first-after": self.first_after != float("inf"),
            "due-after": self.due_after != float("inf"),
            "due-ends": self.due_ends != "requested",
            "risk-budget": self.risk_budget != 0.0,
            "refresh": self.refresh,
        }
        if wrong := [f"--{option}" for option, is_given in given.items() if is_given]:
            raise UsageError(
                f"--backfill conservative reserves for every job in order of arrival, so {' and '.join(wrong)} cannot"
                " apply",
                hint="--backfill easy",
            )

    @property
    def name(self) -> str:
        """Short name: fcfs, easy, easy-sjbf, sjf-easy, conservative, ..."""
        order, candidates = _called(self.order), _called(self.backfill_order)
        if self.backfill == "none":
            return order
        head = "" if order == "fcfs" else f"{order}-"
        tail = {"fcfs": "", "sjf": "-sjbf"}.get(candidates, f"-{candidates}")
        return f"{head}{self.backfill}{tail}"

    def rules(self) -> dict[str, Any]:
        """The kernel's codes."""
        head, candidate = parse_order(self.order), parse_order(self.backfill_order, "backfill-order")
        return {
            "backfill": BACKFILLS[self.backfill],
            "event_order": EVENT_ORDERS[self.event_order],
            "head_order": head.code,
            "head_on": head.on,
            "head_ageing": head.ageing,
            "head_address": head.address,
            "head_varying": head.varying,
            "candidate_order": candidate.code,
            "candidate_on": candidate.on,
            "candidate_ageing": candidate.ageing,
            "candidate_address": candidate.address,
            "candidate_varying": candidate.varying,
            "correction": corrections.NAMES[self.correct],
            "running_ends": ON[self.running_ends],
            "head_after": min(self.head_after, self.first_after),
            "first_after": self.first_after,
            "due_after": self.due_after,
            "due_ends": ON[self.due_ends],
            "risk_budget": self.risk_budget,
            "refresh": int(self.refresh),
        }


def _called(order: OrderLike) -> str:
    return order if isinstance(order, str) else getattr(order, "__name__", "order")
