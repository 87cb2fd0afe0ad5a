# SPDX-License-Identifier: Apache-2.0
"""Finds and creates predictors by name, class, object or factory; functions that take a predictor accept all four.

Names come from `OWN`, from other packages' entry points, or have the form MODULE:CLASS for the user's own code. The
syntax of a name with settings is `NAME:key=value,key=value`.
"""

from __future__ import annotations

import importlib
import inspect
import typing
from collections.abc import Collection, Mapping, Sequence, Set
from copy import deepcopy
from difflib import get_close_matches
from functools import cache, partial
from importlib.util import find_spec
from pkgutil import resolve_name
from typing import Any

from ..errors import UsageError, is_of_project, raised_outside
from ..plug_ins import installed
from . import OWN
from .gate import accepted, check_predictor
from .protocol import is_of_job, name_and_settings


def _own(kind: str) -> dict[str, str]:
    return {name: f"batchcast.predict.{place}" for name, place in OWN.get(kind, {}).items()}


@cache
def available(kind: str) -> Mapping[str, str]:
    """Return the location MODULE:CLASS of every registered method of a kind (`plug_ins.GROUPS`) by name, sorted."""
    return dict(sorted({**installed(kind), **_own(kind)}.items()))


def parse_spec(spec: str) -> tuple[str, dict[str, str]]:
    """Split `NAME:key=value,key=value` into the name and its settings as text; NAME is registered, or MODULE:CLASS.

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
    """Split a comma-separated list of specs; a piece with `=` and without `:` is a further setting of the preceding
    predictor.

    `all` means every registered method of the kind.

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
    """Return the class registered as `name`, or the object at MODULE:CLASS; UsageError suggests similar names."""
    if ":" in name:
        return _imported(*name.split(":"), kind="policy" if kind == "policy" else "predictor")
    methods: Mapping[str, str] = _own(kind)
    if name not in methods:
        methods = available(kind)
    if name not in methods:
        near = get_close_matches(name, methods, n=3, cutoff=0.6)
        hint = f"did you mean {' or '.join(near)}?" if near else ""
        raise UsageError(f"no {kind} method {name!r} (accepted: {', '.join(methods)}, or MODULE:CLASS)", hint=hint)
    return resolve_name(methods[name])


def _imported(module: str, name: str, *, kind: str) -> Any:
    try:
        maker = getattr(importlib.import_module(module), name)
    except Exception as error:
        missing = error.name if isinstance(error, ImportError) else None
        is_of_user = bool(missing) and not f"{module}.".startswith(f"{missing}.")
        if is_of_user or not isinstance(error, (ImportError, AttributeError)):  # raised by the user's own module
            raise raised_outside(error, f"{module}, imported,") from error
        raise UsageError(
            f"no {kind} {module}:{name}: {error} (accepted: MODULE:CLASS of a module that Python can import)",
            hint=f"run where {module.split('.')[0]}.py is, or put its folder on PYTHONPATH",
        ) from None
    if not callable(maker):
        if not any(hasattr(maker, shape) for shape in ("predict", "predict_one", "start")):
            what = f"{module}:{name} is neither a class nor a function nor a {kind}"
            raise UsageError(f"{what} (accepted: a {kind}, or a class or function that makes one)")
        return lambda: deepcopy(maker)
    return maker


def check_installed(kind: str, methods: Collection[Any]) -> None:
    """Raise ModuleNotFoundError if a method needs a package that is not installed, before any work begins."""
    for spec in methods:
        if isinstance(spec, str):
            for package in getattr(load(kind, parse_spec(spec)[0]), "needs", ()):
                if find_spec(package) is None:
                    raise ModuleNotFoundError(f"No module named {package!r}", name=package)


def make(kind: str, spec: str, *, known_at_submit: Collection[str] | None = (), **given: Any) -> Any:
    """Create a method from its spec. Each object in `given` is passed if the constructor has a parameter of that name.

    Settings are converted by the constructor's annotations: int, float, bool (yes/no), str, and tuples of text
    separated by `+`. Raises UsageError for an unknown setting, naming the accepted ones, and for columns that are not
    known at submission. Columns that `columns.py` does not declare must be in `known_at_submit`. If `known_at_submit`
    is None, the caller must check the columns.
    """
    name, text = parse_spec(spec)
    factory = load(kind, name)
    if is_of_job(factory) and not text:
        return method_of(kind, factory, known_at_submit=known_at_submit, predictor_name=spec)
    signature = inspect.signature(factory)
    maker = factory.func if isinstance(factory, partial) else factory
    hints = typing.get_type_hints(maker.__init__ if inspect.isclass(maker) else maker)
    public = [p for p in signature.parameters if p not in OBJECTS]
    arguments: dict[str, Any] = {}
    for key, value in text.items():
        if key not in public:
            raise UsageError(f"{name} has no parameter {key!r} (accepted: {', '.join(public) or 'none'})")
        arguments[key] = _convert(name, key, value, hints.get(key, str))
    try:
        method = construct(factory, arguments, **given)
    except ValueError as error:
        raise UsageError(f"{spec}: {error}") from error
    if kind in TARGETS and not is_of_project(type(method).__module__):
        from .adapters import adapted

        method = adapted(method, kind, f"{spec}: {type(method).__name__}")
    if known_at_submit is not None:
        uses = set(getattr(method, "uses", ()))
        vouched = known_at_submit if uses <= {*accepted(known_at_submit)} else (*known_at_submit, *input_columns())
        check_predictor(method, vouched, spec)
    return method


@cache
def input_columns() -> frozenset[str]:
    """Return the columns that the installed readers of input files write; all of them are known at submission."""
    return frozenset(column for name in available("inputs") for column in load("inputs", name).columns)


def construct(maker: Any, chosen: Mapping[str, Any] | None = None, **objects: Any) -> Any:
    """Call a class or function with the settings `chosen` and with each of `objects` whose name equals one of its
    parameters.

    If a function has one parameter of another name, it receives the log (`trace`); a second parameter of another name
    receives the number of processors (`max_procs`). Raises UsageError if further parameters have no default.

    >>> construct(lambda log: log, trace="the log")
    'the log'
    >>> construct(lambda max_procs, seed=3: (max_procs, seed), max_procs=8.0)
    (8.0, 3)
    """
    try:
        parameters = inspect.signature(maker).parameters
    except ValueError:  # functions written in C have no signature
        return maker()
    arguments = {name: objects[name] for name in parameters if name in objects} | dict(chosen or {})
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [
        p.name for p in parameters.values() if p.default is p.empty and p.kind in by_place and p.name not in arguments
    ]
    log = [objects[name] for name in ("trace", "max_procs") if objects.get(name) is not None]
    if needed and (isinstance(maker, type) or arguments or len(needed) > len(log)):
        what = f"{name_of(maker)} needs {' and '.join(needed)}"
        raise UsageError(f"{what} (accepted: an object, {name_of(maker)}(...), or a function of the log)")
    try:
        return maker(*log[: len(needed)], **arguments)
    except Exception as error:
        inner = getattr(maker, "func", maker)  # of functools.partial
        if is_of_project(str(getattr(inner, "__module__", __name__))):
            raise
        raise raised_outside(error, name_of(maker)) from error


def name_of(method: Any) -> str:
    """Return the default name of a method: its spec, or the name of its class or function.

    >>> name_of("last_2:need=2"), name_of(dict), name_of({})
    ('last_2:need=2', 'dict', 'dict')
    """
    if isinstance(method, str):
        return method
    inner = getattr(method, "func", method)  # of functools.partial
    return str(getattr(inner, "__name__", type(inner).__name__))


def takes(kind: str, name: str, parameter: str) -> bool:
    """Return whether a method's constructor has a parameter of that name."""
    return parameter in inspect.signature(load(kind, name)).parameters


TARGETS = {"runtime": "run_time", "wait": "wait_time"}
SWITCHES = dict.fromkeys(("yes", "true", "1", "on"), True) | dict.fromkeys(("no", "false", "0", "off"), False)
OBJECTS = frozenset({"answers", "rng", "trace", "max_procs", "machine"})


def _convert(name: str, key: str, value: str, hint: Any) -> Any:
    if type(None) in typing.get_args(hint):
        if value.lower() == "none":
            return None
        hint = next(a for a in typing.get_args(hint) if a is not type(None))
    origin = typing.get_origin(hint)
    if origin is tuple:
        return tuple(piece for piece in value.split("+") if piece)
    if hint is bool:
        if value.lower() not in SWITCHES:
            raise UsageError(f"{name}: {key}={value!r} is not a switch (accepted: yes, no)")
        return SWITCHES[value.lower()]
    if hint in (int, float):
        try:
            return hint(value)
        except ValueError:
            raise UsageError(f"{name}: {key}={value!r} is not a number (accepted: {hint.__name__})") from None
    if origin is typing.Literal and value not in typing.get_args(hint):
        raise UsageError(f"{name}: {key}={value!r} (accepted: {', '.join(map(str, typing.get_args(hint)))})")
    return value


def named_methods(methods: Any, kind: str = "runtime") -> dict[str, Any]:
    """Return the requested methods by the names that results show, in the given order, from a name, a list of names, a
    class, an object, or a mapping; UsageError if two have the same name.

    >>> named_methods("last_2:need=2,requested")
    {'last_2:need=2': 'last_2:need=2', 'requested': 'requested'}
    >>> list(named_methods(["last_2", type("Half", (), {})]))
    ['last_2', 'Half']
    """
    # A class, object or factory is named after its class or function. In a mapping, the value None stands for the
    # registered method with the key's name.
    if isinstance(methods, Mapping):
        found = {str(name): str(name) if method is None else method for name, method in methods.items()}
    else:
        several = methods if isinstance(methods, (Sequence, Set)) and not isinstance(methods, str) else [methods]
        found = {}
        for method in several:
            for one in split_specs(method, kind) if isinstance(method, str) else [method]:
                name = name_of(one)
                if name in found and found[name] is not one and found[name] != one:
                    raise UsageError(
                        f"predictor: two methods are called {name} (accepted: a mapping from names to methods)"
                    )
                found[name] = one
    if not found:
        raise UsageError(
            "predictor: no method",
            hint="name one, as in predictor='last_2', or pass an object that implements batchcast.Predictor",
        )
    return found


def is_made(method: Any) -> bool:
    """Return whether `method` is a predictor object or a function of a job, not a name, class or factory."""
    shapes = ("predict", "predict_one")
    made_so = not isinstance(method, (str, type)) and any(callable(getattr(method, name, None)) for name in shapes)
    return made_so or is_of_job(method)


def makes(method: Any) -> bool:
    """Return whether `method` is a class or function that creates a predictor."""
    return callable(method) and not is_made(method)


def fresh(method: Any) -> Any:
    """Return a copy of a predictor object, so that each use starts from the same state; names and factories are
    unchanged.
    """
    return deepcopy(method) if is_made(method) else method


def method_of(
    kind: str, predictor: Any, *, known_at_submit: Collection[str] | None = (), predictor_name: str = "", **objects: Any
) -> Any:
    """Return a predictor from a name, a class, an object or a factory.

    >>> from batchcast.predict.runtime.baselines import Last2
    >>> [type(method_of("runtime", each)).__name__ for each in ("last_2", Last2, Last2(), lambda: Last2())]
    ['Last2', 'Last2', 'Last2', 'Last2']
    """
    # A class or function is called with `trace` and each of `objects` if one of its parameters has that name; if a
    # function has a single parameter with another name, this parameter receives the log (`construct`). A predictor
    # object is used as it is, without a copy. A function of `job` (and the state) is a predictor that does not learn.
    # If `known_at_submit` is None, the caller must check the columns.
    objects.setdefault("trace", None)
    if isinstance(predictor, str):
        method = make(kind, predictor, known_at_submit=known_at_submit, **objects)
    else:
        from .adapters import FORMS, adapted

        predictor_name = predictor_name or name_of(predictor)
        method = predictor
        if not is_made(predictor):
            if not callable(predictor):
                raise UsageError(f"predictor: {predictor!r} (accepted: {FORMS})")
            method = construct(predictor, None, **objects)
            if isinstance(method, str):
                return method_of(kind, method, known_at_submit=known_at_submit, **objects)
        method = adapted(method, kind, predictor_name)
        if known_at_submit is not None:
            check_predictor(method, known_at_submit, predictor_name)
    target, wanted = getattr(method, "target", None), TARGETS.get(kind)
    if target != wanted and target in TARGETS.values():
        forecasts = f"{predictor_name or name_of(predictor)} forecasts {target}"
        raise UsageError(f"{forecasts} (accepted here: a method whose target is {wanted})")
    return method
