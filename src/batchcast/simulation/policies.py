# SPDX-License-Identifier: Apache-2.0
"""Policies by name, with the words of a policy as parameters: `easy-sjbf:correct=incremental,head_after=6h`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ..errors import UsageError
from ..units import parse_duration
from .policy import Policy

NAMED = {
    "fcfs": Policy(backfill="none"),
    "easy": Policy(),
    "easy-sjbf": Policy(backfill_order="sjf"),
    "conservative": Policy(backfill="conservative"),
    "forecast": Policy(
        order="sjf", backfill_order="sjf", running_ends="requested", first_after=172_800.0, predictor="kernel"
    ),
}
AGES = ("head_after", "first_after", "due_after")
WORDS = tuple(field.name for field in fields(Policy))
OF_AN_ORDER = ("on", "ageing")
"""Parameters of an order: after `order=sjf:on=requested` a comma may part them from what follows."""
_YES_OR_NO = {"yes": True, "true": True, "no": False, "false": False}


def policy_of(text: str) -> Policy:
    """A policy from its name, with the words of `Policy` as parameters.

    Parameters
    ----------
    text : str
        `fcfs`, `easy`, `easy-sjbf`, `conservative` or `forecast` (the shortest forecast by `kernel` first, who waited
        two days before all), alone or as `NAME:word=value,word=value`; `head_after`, `first_after` and `due_after` take
        a time, `risk_budget` a number, `kill` and `refresh` yes or no, an order its own parameters
        (`easy:order=sjf:on=requested,ageing=0.5`).

    Returns
    -------
    Policy

    Raises
    ------
    UsageError
        When the name, a word or a value is none of the accepted ones.

    Examples
    --------
    >>> policy_of("easy:correct=doubling,head_after=6h").head_after
    21600.0
    >>> policy_of("easy:order=sjf:on=requested,ageing=0.5").order
    'sjf:on=requested,ageing=0.5'
    """
    name, _, rest = text.strip().partition(":")
    if name not in NAMED:
        raise UsageError(f"no policy {name!r} (accepted: {', '.join(NAMED)}, with parameters as NAME:key=value)")
    return changed(NAMED[name], _words(rest, text))


def changed(policy: Policy, words: Mapping[str, str]) -> Policy:
    """The policy with some of its words given anew, as text.

    >>> changed(Policy(), {"kill": "no", "order": "saf"}).name
    'saf-easy'
    """
    unknown = [word for word in words if word not in WORDS]
    if unknown:
        raise UsageError(f"a policy has no parameter {unknown[0]!r} (accepted: {', '.join(WORDS)})")
    values: dict[str, Any] = {word: getattr(policy, word) for word in WORDS} | dict(words)
    for word in AGES:
        if word in words:
            values[word] = parse_duration(words[word])
    if "risk_budget" in words:
        values["risk_budget"] = _number("risk_budget", words["risk_budget"])
    for word in ("kill", "refresh"):
        if word in words:
            if words[word].lower() not in _YES_OR_NO:
                raise UsageError(f"{word}: {words[word]!r} (accepted: yes, no)")
            values[word] = _YES_OR_NO[words[word].lower()]
    return Policy(**values)


def _number(word: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{word}: {text!r} (accepted: a number)") from None


def split_policies(text: str) -> list[str]:
    """A comma list of policies, where commas also part parameters; each is checked.

    >>> split_policies("easy:correct=incremental,order=sjf:ageing=0.5,fcfs")
    ['easy:correct=incremental,order=sjf:ageing=0.5', 'fcfs']
    """
    names: list[str] = []
    for piece in filter(None, (p.strip() for p in text.split(","))):
        if names and "=" in piece and ":" not in piece.partition("=")[0]:
            names[-1] += ("," if ":" in names[-1] else ":") + piece
        else:
            names.append(piece)
    for name in names:
        policy_of(name)
    return list(dict.fromkeys(names))


def _words(rest: str, text: str) -> dict[str, str]:
    """`word=value,word=value`; what belongs to an order stays with it."""
    words: dict[str, str] = {}
    last = ""
    for item in filter(None, (i.strip() for i in rest.split(","))):
        word, equals, value = (part.strip() for part in item.partition("="))
        if not equals:
            raise UsageError(f"not a parameter: {item!r} in {text!r} (accepted: NAME:key=value,key=value)")
        if word in OF_AN_ORDER and last.endswith("order"):
            words[last] += ("," if ":" in words[last] else ":") + item
            continue
        last = word.replace("-", "_")
        words[last] = value
    return words
