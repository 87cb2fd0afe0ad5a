"""Orders of the queue from text or from a Python function: who is the head, and which candidate is tried first."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..compiled import compile_key, reads
from ..errors import UsageError
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
