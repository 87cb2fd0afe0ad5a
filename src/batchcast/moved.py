# SPDX-License-Identifier: Apache-2.0
"""Old names that still work for one version and say what they are now: of modules, and of arguments."""

from __future__ import annotations

import sys
import warnings
from functools import partial, wraps
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

P = ParamSpec("P")
R = TypeVar("R")

MOVED = {
    "results.accuracy": "results.forecasts",
    "results.limits": "results.forecasts",
    "sweep.plans": "sweep.compare",
    "trace.synth.cluster": "trace.demo",
}
"""The modules that a page of docs has named by another name."""
PACKAGE = __name__.rpartition(".")[0]


class MovedModules:
    """Finds a module by its old name, after everything else has failed to."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        """The old name's module, which passes every question on to the new one."""
        place, _, old = name.partition(".")
        loader: Any = self  # duck-typed: importlib.abc takes a sixth of start-up to load
        return ModuleSpec(name, loader) if place == PACKAGE and old in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """A module that answers with what is at the new place."""
        old = spec.name.partition(".")[2]
        new = import_module(f"{PACKAGE}.{MOVED[old]}")
        warnings.warn(f"{spec.name} is {new.__name__} now", DeprecationWarning, stacklevel=2)
        module = ModuleType(spec.name, new.__doc__)
        vars(module)["__getattr__"] = partial(getattr, new)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing runs: the new module has run."""


def older_names(**renamed: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Arguments of a function by their older names, too: each works for one version, with a warning.

    >>> older_names(runtime="predictor")(lambda predictor: predictor)(predictor="last_2")
    'last_2'
    """

    def around(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            for old, new in renamed.items():
                if old in kwargs:
                    if new in kwargs:
                        raise TypeError(f"{function.__name__}: {old} is {new} now: give one of them")
                    warnings.warn(f"{function.__name__}: {old}= is {new}= now", FutureWarning, stacklevel=2)
                    kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return called

    return around


def install() -> None:
    """Let old names be found in this process; twice is once."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(MovedModules())
