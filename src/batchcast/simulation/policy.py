# SPDX-License-Identifier: Apache-2.0
"""`Policy`: the settings of the compiled scheduler.

The settings are the order of the queue (built-in, as text, or a Python function), which jobs may overtake the first
job, and how a planned run time is corrected when a job runs longer than planned.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, NamedTuple

from ..compiled import compile_key, reads
from ..errors import UsageError, check_word, says_arguments
from ..schedule import orders, state
from ..schedule.orders import FCFS, NAMES, USER, VARYING
from ..schedule.state import PLANNED, REQUESTED

ARGUMENTS = ("now", "submit", "procs", "planned", "wait")
ON = {"planned": PLANNED, "requested": REQUESTED}
FORMS = f"{', '.join(NAMES)}, or MODULE:FUNCTION of ({', '.join(ARGUMENTS)}) -> key"


class Order(NamedTuple):
    """A queue order in the kernel's form: the code of the order, the run time that the order reads, its ageing, and the
    address of a user's function."""

    order: int
    on: int = PLANNED
    ageing: float = 0.0
    address: int = 0
    varying: bool = False


def parse_order(order: str | Callable[..., float], option: str = "order") -> Order:
    """Return the queue order of `NAME:on=requested,ageing=W`, of `MODULE:FUNCTION` with these settings, or a function.

    `on` is the run time that the order reads: the planned (default) or the requested run time. `ageing=W` lowers a
    job's key by W for every second that the job waits, so that every job becomes the first at some time. A user's
    function receives (now, submit, procs, planned, wait) as floats, in seconds on the log's clock, and returns a key.
    The job with the smallest key goes first, a job with key NaN last, jobs with equal keys by arrival. The function is
    compiled once per process, in about a tenth of a second. Raises UsageError with the accepted forms.

    >>> parse_order("sjf:on=requested,ageing=0.5")
    Order(order=1, on=1, ageing=0.5, address=0, varying=False)
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
        raise UsageError(f"--{option}: fcfs has no parameters because it already starts the oldest job first")
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
        raise UsageError(f"--{option}: {module}:{function} is not a function")
    return key


def _of_function(function: Callable[..., float], on: int, ageing: float) -> Order:
    # keys change while jobs wait if the function reads its first or its last argument
    return Order(USER, on, ageing, compiled(function).address, reads(function, (0, len(ARGUMENTS) - 1)))


@cache
def compiled(function: Callable[..., float]) -> Any:
    """Compile the function once; it stays in memory until the process ends, because the kernel stores its address."""
    name = getattr(function, "__name__", str(function))
    if not inspect.isfunction(function) or len(inspect.signature(function).parameters) != len(ARGUMENTS):
        raise UsageError(f"the order {name} must be a plain function of ({', '.join(ARGUMENTS)})")
    try:
        return compile_key(function)
    except Exception as error:  # numba raises many types of errors; the user needs only the error's message
        raise UsageError(
            f"the order {name} does not compile: {_sentence(error)}",
            hint="plain arithmetic on the five floats, math and if; it must return a number",
        ) from error


def _sentence(error: Exception) -> str:
    """Return the lines of a compiler's message that are about the user's code."""
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for line in str(error).splitlines()]  # coloured by colorama
    skipped = ("Failed in", "During:", "This error", "Known signatures", "Enable logging")
    sentences = [line for line in lines if line and not line.startswith(skipped)]
    return " ".join(sentences)[:400]


CODES: Mapping[str, Mapping[str, int]] = {
    "backfill": {"none": state.NO_BACKFILL, "easy": state.EASY, "conservative": state.CONSERVATIVE},
    "correct": orders.CORRECTIONS,
    "event_order": {"instant": state.INSTANT, "pyss": state.PYSS},
    "running_ends": ON,
    "due_ends": ON,
}
"""Settings that are words, with the kernel's code for each accepted word."""
AGES = ("head_after", "first_after", "due_after")
OF_A_QUEUE = ("order", "backfill_order", "running_ends", *AGES, "due_ends", "risk_budget", "refresh")
"""Settings that conservative backfilling cannot use."""
OrderLike = str | Callable[..., float]


@dataclass(frozen=True, slots=True)
class Policy:
    """A scheduling policy of the compiled simulation.

    Parameters
    ----------
    order
        Order of the queue, which decides the head: a name with settings, or a function (see `parse_order`).
    backfill
        Which jobs may overtake the head: `easy` (one reservation, for the head), `conservative` (a reservation for
        every job) or `none` (no job).
    backfill_order
        Order in which candidates for backfilling are tried.
    correct
        The rule for the new planned run time of a job that exceeded its plan (`requested`, `incremental`, `doubling`).
    kill
        Whether a job is killed at its requested time.
    event_order
        `instant`, or `pyss`: the event order of the reference schedules by the simulator pyss, which implies
        kill=False.
    running_ends
        Which run time gives the planned end of a running job when other jobs are planned: `planned` or `requested`.
    head_after
        Seconds. If the head has waited longer than `head_after`, its reservation uses the requested times of running
        jobs and of candidates, so that predictions cannot delay the head further.
    first_after
        Seconds. Jobs that have waited longer than `first_after` come before the queue order, by arrival, with a
        reservation as with `head_after`.
    due_after
        Seconds. Jobs whose wait exceeds their wait in a shadow run of EASY with requested times by more than
        `due_after` also come before the queue order. The shadow run has the same submissions, and learns a job's run
        time when the job has ended in the main simulation.
    due_ends
        Which run time the shadow run uses for a job that has not ended in the main simulation: `requested`, or the
        first `planned` run time until the job has run longer.
    risk_budget
        Maximum sum of the probabilities that jobs delay one reservation. A job whose requested time does not fit may
        overtake a job with a reservation, as long as the probabilities that such jobs run beyond the reserved start add
        up to at most this value. The probabilities come from predicted quantiles. With 0, no job may overtake at such a
        risk.
    refresh
        Whether queued jobs get a new planned run time when a job of the same user and requested time ends. The new
        planned run time is the geometric mean of the job's first planned run time and of at most eight run times of
        such jobs since the job's submission.
    predictor
        Predictor used for planning if `simulate` is called without a predictor: time limits (`requested`), or a
        predictor's name.

    Raises
    ------
    UsageError
        If a value is not accepted; the message lists the accepted values.

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
        for name, accepted in CODES.items():
            check_word(name.replace("_", "-"), getattr(self, name), accepted)
        for age in AGES:
            if not getattr(self, age) >= 0:
                what = f"--{age.replace('_', '-')}: not {getattr(self, age)!r}"
                raise UsageError(f"{what} (accepted: a time of 0 or more)")
        if not 0 <= self.risk_budget < float("inf"):
            raise UsageError(f"--risk-budget: not {self.risk_budget!r} (accepted: a sum of probabilities, 0 or more)")
        parse_order(self.order), parse_order(self.backfill_order, "backfill-order")
        if self.backfill == "conservative":
            self._refuse_for_conservative()
        if self.event_order == "pyss" and self.due_after != float("inf"):
            raise UsageError("--due-after: the shadow run only supports the event order `instant`", hint="without pyss")
        if self.event_order == "pyss" and self.kill:
            object.__setattr__(self, "kill", False)

    def _refuse_for_conservative(self) -> None:
        """Reject settings that conservative backfilling cannot use: conservative backfilling reserves for every job in
        order of arrival."""
        given = [f.name for f in fields(self) if f.name in OF_A_QUEUE and getattr(self, f.name) != f.default]
        if given:
            wrong = " and ".join(f"--{name.replace('_', '-')}" for name in given)
            what = f"--backfill conservative reserves for every job in order of arrival, so {wrong} cannot apply"
            raise UsageError(what, hint="--backfill easy")

    @property
    def name(self) -> str:
        """Return the short name: fcfs, easy, easy-sjbf, sjf-easy, conservative, ..."""
        order, candidates = _order_name(self.order), _order_name(self.backfill_order)
        if self.backfill == "none":
            return order
        head = "" if order == "fcfs" else f"{order}-"
        tail = {"fcfs": "", "sjf": "-sjbf"}.get(candidates, f"-{candidates}")
        return f"{head}{self.backfill}{tail}"

    def rules(self) -> dict[str, Any]:
        """Return the settings as the kernel's codes."""
        head, candidate = parse_order(self.order), parse_order(self.backfill_order, "backfill-order")
        return {
            **{name: codes[getattr(self, name)] for name, codes in CODES.items() if name != "correct"},
            "correction": orders.CORRECTIONS[self.correct],
            **{f"head_{name}": value for name, value in head._asdict().items()},
            **{f"candidate_{name}": value for name, value in candidate._asdict().items()},
            **{name: getattr(self, name) for name in ("first_after", "due_after", "risk_budget", "refresh")},
            "head_after": min(self.head_after, self.first_after),
        }


Policy.__init__ = says_arguments(Policy.__init__, "Policy")  # type: ignore[method-assign]


def _order_name(order: OrderLike) -> str:
    return order if isinstance(order, str) else getattr(order, "__name__", "order")
