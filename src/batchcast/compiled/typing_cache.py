"""What an operation on these kinds gives is asked of numba once, not at every place of every kernel.

numba tries some fifty declarations of `+`, each with and without literals, wherever two numbers are added: a fifth of
what compiling costs. Its answer depends on the operation, the kinds of its arguments and how kernels are compiled.
"""

from __future__ import annotations

from types import BuiltinFunctionType
from typing import Any

from numba.core import compiler, types

TYPES: Any = types  # numba has no annotations
FLAGS: Any = compiler.Flags
KNOWN: dict[Any, Any] = {}  # by operation, kinds and the flags of the kernel: numba's answer


class Settled(FLAGS):  # type: ignore[misc]
    """How a kernel is compiled, compared by what was set: numba compares thirty options, a hundred thousand times."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(Settled)

    def __eq__(self, other: object) -> bool:
        return self._values == other._values if isinstance(other, Settled) else NotImplemented


class Remembering:
    """numba's typing context in front of `KNOWN`: all else goes to the context itself."""

    def __init__(self, context: Any, flags: Any) -> None:
        self._context = context
        self._flags = flags.summary()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, function: Any, arguments: Any, keywords: Any) -> Any:
        """The signature of `function` for these kinds; what does not exist is asked for again, for numba says why."""
        key = (function, tuple(arguments), tuple(keywords.items()), self._flags)
        lasting = isinstance(function, BuiltinFunctionType) or type(function) is TYPES.Function
        answer = KNOWN.get(key) if lasting else None
        if answer is None:
            answer = self._context.resolve_function_type(function, arguments, keywords)
            if lasting and answer is not None:
                KNOWN[key] = answer
        return answer
