# SPDX-License-Identifier: Apache-2.0
"""`Policy`: the settings of the scheduling kernel, as one value.

The order of the queue (built in, as text, or a Python function), which jobs may pass the first, and how a plan is
corrected when a job runs longer than it.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..compiled import compile_key, reads
from ..errors import UsageError, check_word, says_arguments
from ..schedule import orders, state
from ..schedule.orders import FCFS, NAMES, USER, VARYING
from ..schedule.state import PLANNED, REQUESTED

ARGUMENTS = ("now", "submit", "procs", "planned", "wait")
ON = {"planned": PLANNED, "requested": REQUESTED}
FORMS = f"{', '.join(NAMES)}, or MODULE:FUNCTION of ({', '.join(ARGUMENTS)}) -> key"


@dataclass(frozen=True, slots=True)
class Order:
    """What the kernel needs to know of an order: its code, its length, its ageing, and its own code's address."""

    code: int
    on: int = PLANNED
    ageing: float = 0.0
    address: int = 0
    varying: bool = False


def parse_order(order: str | Callable[..., float], option: str = "order") -> Order:
    """An order from `NAME:on=requested,ageing=W`, from `MODULE:FUNCTION` with the same parameters, or from a function.

    `on` says which length the order reads, the planned (default) or the requested one. `ageing=W` lets a job's key
    fall by W for every second it waits, so that it comes first one day whatever arrives. A function of the user's own
    gets (now, submit, procs, planned, wait) as floats, seconds on the log's clock; the smallest key goes first, NaN
    last, ties by arrival. It is compiled once in a process (about a tenth of a second).
    Raises UsageError naming the accepted forms.

    >>> parse_order("sjf:on=requested,ageing=0.5")
    Order(code=1, on=1, ageing=0.5, address=0, varying=False)
    """
    if callable(order):
        return _of_function(order, PLANNED, 0.0)
    name, _, rest = order.strip().partition(":")
    function = ""
    if name not in NAMES:
        function, _, rest = rest.partition(":")
        if not function or "=" in function:
            raise UsageError(f"--{option}: no {order!r} (accepted: {FORMS})")
    on, ageing = _parameters(order, rest, option)
    if function:
        return _of_function(_imported(name, function, option), on, ageing)
    code = NAMES[name]
    if code == FCFS and rest:
        raise UsageError(f"--{option}: fcfs has no parameters, the oldest already comes first")
    return Order(code, on, ageing, 0, code in VARYING)


def _parameters(order: str, rest: str, option: str) -> tuple[int, float]:
    on, ageing = PLANNED, 0.0
    for item in filter(None, rest.split(",")):
        key, _, value = item.partition("=")
        if key == "on" and value in ON:
            on = ON[value]
            continue
        try:
            ageing = float(value)
        except ValueError:
            ageing = -1.0
        if key != "ageing" or not 0 <= ageing < float("inf"):
            raise UsageError(
                f"--{option}: {order!r}: not {item!r} (accepted: on=planned, on=requested, ageing=WEIGHT of 0 or more)"
            )
    return on, ageing


def _imported(module: str, function: str, option: str) -> Callable[..., float]:
    try:
        key: Callable[..., float] = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"--{option}: {module}:{function}: {error} (accepted: {FORMS})") from None
    if not callable(key):
        raise UsageError(f"--{option}: {module}:{function} is no function")
    return key


def _of_function(function: Callable[..., float], on: int, ageing: float) -> Order:
    return Order(USER, on, ageing, compiled(function).address, _varies(function))


@cache
def compiled(function: Callable[..., float]) -> Any:
    """The function as machine code, once; kept for the life of the process, for the kernel holds its address."""
    name = getattr(function, "__name__", str(function))
    if not inspect.isfunction(function) or len(inspect.signature(function).parameters) != len(ARGUMENTS):
        raise UsageError(f"the order {name} must be a plain function of ({', '.join(ARGUMENTS)})")
    try:
        return compile_key(function)
    except Exception as error:  # numba has many kinds, the user needs the sentence
        raise UsageError(
            f"the order {name} does not compile: {_sentence(error)}",
            hint="plain arithmetic on the five floats, math and if; it must return a number",
        ) from error


def _sentence(error: Exception) -> str:
    """The lines of a compiler's message that speak of the user's code."""
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for line in str(error).splitlines()]  # coloured by colorama
    skipped = ("Failed in", "During:", "This error", "Known signatures", "Enable logging")
    sentences = [line for line in lines if line and not line.startswith(skipped)]
    return " ".join(sentences)[:400]


@cache
def _varies(function: Callable[..., float]) -> bool:
    """Whether keys change while jobs wait: the function makes use of its first or its last argument."""
    return reads(function, (0, len(ARGUMENTS) - 1))


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
    predictor
        What plans unless a schedule is asked for with another: the users' limits (`requested`), or a forecast by name.

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
    predictor: str = "requested"

    def __post_init__(self) -> None:
        for option, value, accepted in (
            ("backfill", self.backfill, BACKFILLS),
            ("correct", self.correct, orders.CORRECTIONS),
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
            "correction": orders.CORRECTIONS[self.correct],
            "running_ends": ON[self.running_ends],
            "head_after": min(self.head_after, self.first_after),
            "first_after": self.first_after,
            "due_after": self.due_after,
            "due_ends": ON[self.due_ends],
            "risk_budget": self.risk_budget,
            "refresh": int(self.refresh),
        }


Policy.__init__ = says_arguments(Policy.__init__, "Policy")  # type: ignore[method-assign]


def _called(order: OrderLike) -> str:
    return order if isinstance(order, str) else getattr(order, "__name__", "order")
