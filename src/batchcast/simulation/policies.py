# SPDX-License-Identifier: Apache-2.0
"""Scheduling policies by name, with settings: `easy-sjbf:correct=incremental,head_after=6h`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import fields, replace
from difflib import get_close_matches
from functools import partial
from inspect import isfunction, signature
from typing import Any, TypeVar

from ..errors import UsageError
from ..predict.protocol import name_and_settings
from ..predict.registry import load, make
from ..units import parse_duration
from .own_clock import OwnPolicy
from .policy import AGES, ARGUMENTS, Policy

POLICIES = {
    "fcfs": Policy(backfill="none"),
    "easy": Policy(),
    "easy-sjbf": Policy(backfill_order="sjf"),
    "conservative": Policy(backfill="conservative"),
    "forecast": Policy(
        order="sjf", backfill_order="sjf", running_ends="requested", first_after=172_800.0, predictor="kernel"
    ),
}
WORDS = tuple(field.name for field in fields(Policy))
OF_AN_ORDER = ("on", "ageing")
"""Settings of an order, such as `on` in `order=sjf:on=requested`; after a comma, further settings may follow."""
AnyPolicy = TypeVar("AnyPolicy", Policy, OwnPolicy, Policy | OwnPolicy)
_YES_OR_NO = {"yes": True, "true": True, "no": False, "false": False}


def as_policy(policy: Any) -> Policy | OwnPolicy:
    """Return the policy of a name, a `Policy`, or a user's own scheduler (a class, an object or a factory).

    >>> as_policy(None).name, as_policy("fcfs").name
    ('easy', 'fcfs')
    """
    if policy is None:
        return Policy()
    if isinstance(policy, (Policy, OwnPolicy)):
        return policy
    if isinstance(policy, (Mapping, Sequence, Set)) and not isinstance(policy, str):
        raise UsageError(f"policy: a {type(policy).__name__} of {len(policy)} (accepted: one policy)",
                         hint="batchcast.evaluate compares several policies")  # fmt: skip
    return policy_of(policy) if isinstance(policy, str) else OwnPolicy.of(policy)


def named_policies(policies: Any) -> dict[str, Policy | OwnPolicy]:
    """Map names for the results to the requested policies, in the order of the request.

    `policies` is a comma-separated list of names, any form that `as_policy` accepts, a sequence of these forms, or a
    mapping of names to these forms (None: the policy with that name).

    >>> list(named_policies("easy,easy-sjbf:correct=incremental")), list(named_policies({"mine": Policy("saf")}))
    (['easy', 'easy-sjbf:correct=incremental'], ['mine'])
    """
    if isinstance(policies, Mapping):
        return {str(name): as_policy(str(name) if policy is None else policy) for name, policy in policies.items()}
    several = policies if isinstance(policies, (Sequence, Set)) and not isinstance(policies, str) else [policies]
    found: dict[str, Policy | OwnPolicy] = {}
    for one in several:
        for policy in split_policies(one) if isinstance(one, str) else [one]:
            plan = as_policy(policy)
            found[policy if isinstance(policy, str) else plan.name] = plan
    return found


def policy_of(text: str) -> Policy | OwnPolicy:
    """Return a policy from `NAME:key=value,key=value` (docs/reference/policies.md), or your own scheduler from
    MODULE:CLASS.

    >>> policy_of("easy:correct=doubling,head_after=6h").head_after
    21600.0
    >>> policy_of("easy:order=sjf:on=requested,ageing=0.5").order
    'sjf:on=requested,ageing=0.5'
    """
    name, _, rest = text.strip().partition(":")
    if name not in POLICIES and name_and_settings(text.strip())[0] != name:
        maker = load("policy", name_and_settings(text.strip())[0])
        if isfunction(maker) and tuple(signature(maker).parameters) == ARGUMENTS:
            raise UsageError(f"{text.strip()} is a queue order, not a policy",
                             hint=f"an order is a setting of a policy: easy:order={text.strip()}")  # fmt: skip
        return OwnPolicy.of(partial(make, "policy", text.strip()), text.strip())
    if name not in POLICIES:
        near = " or ".join(get_close_matches(name, POLICIES, n=2, cutoff=0.6))
        raise UsageError(f"no policy {name!r} (accepted: {', '.join(POLICIES)}, with parameters as NAME:key=value;"
                         " or MODULE:CLASS)", hint=near and f"did you mean {near}?")  # fmt: skip
    return changed(POLICIES[name], _words(rest, text))


def changed(policy: AnyPolicy, words: Mapping[str, str]) -> AnyPolicy:
    """Return the policy with some settings changed; the new values are text.

    >>> changed(Policy(), {"kill": "no", "order": "saf"}).name
    'saf-easy'
    """
    if isinstance(policy, OwnPolicy):
        if refused := [word for word in words if word != "kill"]:
            raise UsageError(f"{policy.name} has no setting {refused[0]!r}: it is your own scheduler",
                             hint=f"parameters of its class: {policy.name}:key=value")  # fmt: skip
        return replace(policy, kill=_is_yes("kill", words["kill"])) if words else policy
    unknown = [word for word in words if word not in WORDS]
    if unknown:
        raise UsageError(f"a policy has no parameter {unknown[0]!r} (accepted: {', '.join(WORDS)})")
    forms: dict[str, Callable[[str, str], Any]] = dict.fromkeys(AGES, lambda _, text: parse_duration(text))
    forms |= {"risk_budget": _number, "kill": _is_yes, "refresh": _is_yes}
    values: dict[str, Any] = {word: forms[word](word, text) if word in forms else text for word, text in words.items()}
    return replace(policy, **values)


def _is_yes(word: str, text: str) -> bool:
    if text.lower() not in _YES_OR_NO:
        raise UsageError(f"{word}: {text!r} (accepted: yes, no)")
    return _YES_OR_NO[text.lower()]


def _number(word: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{word}: {text!r} (accepted: a number)") from None


def split_policies(text: str) -> list[str]:
    """Split a comma-separated list of policies, whose settings may also contain commas; check each policy.

    >>> split_policies("easy:correct=incremental,order=sjf:ageing=0.5,fcfs")
    ['easy:correct=incremental,order=sjf:ageing=0.5', 'fcfs']
    """
    names: list[str] = []
    for piece in filter(None, (p.strip() for p in text.split(","))):
        if names and "=" in piece and ":" not in piece.partition("=")[0]:
            names[-1] += ("," if name_and_settings(names[-1])[1] else ":") + piece
        else:
            names.append(piece)
    for name in names:
        policy_of(name)
    return list(dict.fromkeys(names))


def _words(rest: str, text: str) -> dict[str, str]:
    """Split `key=value,key=value`; the settings of a queue order stay in the value of `order`."""
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
