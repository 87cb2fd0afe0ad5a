# SPDX-License-Identifier: Apache-2.0
"""Predictors by name: found as entry points, or one's own as MODULE:CLASS; one syntax, `NAME:key=value,key=value`."""

from __future__ import annotations

import importlib
import inspect
import typing
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from ..errors import UsageError
from .gate import check_predictor
from .names import name_and_settings

GROUPS = {
    "runtime": "batchcast.runtime_predictors",
    "wait": "batchcast.wait_predictors",
    "heuristic": "batchcast.heuristics",
}


@cache
def available(kind: str) -> Mapping[str, EntryPoint]:
    """Every registered method of a kind (`runtime`, `wait`, `heuristic`) by name, sorted; nothing is imported."""
    points = {point.name: point for point in entry_points(group=GROUPS[kind])}
    return dict(sorted(points.items()))


def parse_spec(spec: str) -> tuple[str, dict[str, str]]:
    """`NAME:key=value,key=value` as a name and its parameters in text; NAME is registered, or MODULE:CLASS.

    >>> parse_spec("last_2:need=2,round=down"), parse_spec("my.methods:Mine:k=3")
    (('last_2', {'need': '2', 'round': 'down'}), ('my.methods:Mine', {'k': '3'}))
    """
    name, rest = name_and_settings(spec.strip())
    parameters: dict[str, str] = {}
    for item in filter(None, rest.split(",")):
        key, equals, value = item.partition("=")
        if not equals:
            raise UsageError(
                f"not a parameter: {item!r} in {spec!r} (accepted: NAME:key=value,key=value or MODULE:CLASS:key=value)"
            )
        parameters[key.strip()] = value.strip()
    return name, parameters


def split_specs(text: str, kind: str = "runtime") -> list[str]:
    """A comma list of specs, where commas also part parameters: a piece with `=` and no `:` belongs to the one before.

    `all` stands for every registered method of the kind.

    >>> split_specs("last_2:need=2,round=down,requested,mine:Own,k=3")
    ['last_2:need=2,round=down', 'requested', 'mine:Own:k=3']
    """
    specs: list[str] = []
    for piece in filter(None, (p.strip() for p in text.split(","))):
        if specs and "=" in piece and ":" not in piece.split("=")[0]:
            specs[-1] += ("," if name_and_settings(specs[-1])[1] else ":") + piece
        else:
            specs.append(piece)
    return [name for spec in specs for name in (available(kind) if spec == "all" else (spec,))]


def load(kind: str, name: str) -> Any:
    """The class behind a name, or any maker as MODULE:CLASS; UsageError names the nearest registered ones."""
    if ":" in name:
        return _imported(*name.split(":"))
    methods = available(kind)
    if name not in methods:
        near = get_close_matches(name, methods, n=3, cutoff=0.6)
        hint = f"did you mean {' or '.join(near)}?" if near else ""
        raise UsageError(f"no {kind} method {name!r} (accepted: {', '.join(methods)}, or MODULE:CLASS)", hint=hint)
    return methods[name].load()


def _imported(module: str, name: str) -> Any:
    try:
        maker = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"no predictor {module}:{name}: {error} (accepted: MODULE:CLASS of a module that Python finds)",
            hint=f"run where {module.split('.')[0]}.py is, or put its folder on PYTHONPATH",
        ) from None
    if not callable(maker):
        raise UsageError(f"{module}:{name} is neither a class nor a function (accepted: what makes a predictor)")
    return maker


def make(kind: str, spec: str, *, known_at_submit: Collection[str] | None = (), **given: Any) -> Any:
    """A method from its spec; `given` passes objects that text cannot name (answers, a generator), where asked for.

    Parameters are converted by the constructor's annotations: int, float, bool (yes/no), str, and tuples of text
    parted by `+`. Raises UsageError for an unknown parameter, naming the accepted ones, and for columns that are not
    known at submission: those the table does not declare must be in `known_at_submit` (None leaves the check to the
    caller).
    """
    name, text = parse_spec(spec)
    factory = load(kind, name)
    signature = inspect.signature(factory)
    hints = typing.get_type_hints(_function(factory))
    public = [p for p in signature.parameters if p not in OBJECTS]
    arguments: dict[str, Any] = {k: v for k, v in given.items() if k in signature.parameters}
    for key, value in text.items():
        if key not in public:
            raise UsageError(f"{name} has no parameter {key!r} (accepted: {', '.join(public) or 'none'})")
        arguments[key] = _convert(name, key, value, hints.get(key, str))
    try:
        method = factory(**arguments)
    except ValueError as error:
        raise UsageError(f"{spec}: {error}") from error
    missing = [member for member in NEEDED.get(kind, ()) if not callable(getattr(method, member, None))]
    if missing:
        raise UsageError(f"{spec}: {type(method).__name__} has no {' and no '.join(missing)} (accepted: a predictor)")
    if known_at_submit is not None:
        check_predictor(method, known_at_submit, spec)
    return method


def takes(kind: str, name: str, parameter: str) -> bool:
    """Whether a method's constructor has a parameter of that name."""
    return parameter in inspect.signature(load(kind, name)).parameters


def _function(factory: Any) -> Any:
    """Whose annotations say how text becomes parameters."""
    if isinstance(factory, partial):
        return factory.func
    return factory.__init__ if inspect.isclass(factory) else factory


NEEDED = {"runtime": ("predict", "observe"), "wait": ("predict", "observe")}
OBJECTS = frozenset({"answers", "rng", "trace", "max_procs", "machine"})


def _convert(name: str, key: str, value: str, hint: Any) -> Any:
    origin = typing.get_origin(hint)
    if origin is not None and type(None) in typing.get_args(hint):
        if value.lower() == "none":
            return None
        hint = next(a for a in typing.get_args(hint) if a is not type(None))
        origin = typing.get_origin(hint)
    if origin is tuple:
        return tuple(piece for piece in value.split("+") if piece)
    if hint is bool:
        if value.lower() in ("yes", "true", "1", "on"):
            return True
        if value.lower() in ("no", "false", "0", "off"):
            return False
        raise UsageError(f"{name}: {key}={value!r} is not a switch (accepted: yes, no)")
    if hint in (int, float):
        try:
            return hint(value)
        except ValueError:
            raise UsageError(f"{name}: {key}={value!r} is not a number (accepted: {hint.__name__})") from None
    if origin is typing.Literal and value not in typing.get_args(hint):
        raise UsageError(f"{name}: {key}={value!r} (accepted: {', '.join(map(str, typing.get_args(hint)))})")
    return value
