"""Tests that numba is asked only once for the result type of an operation on equal types with equal compile options."""

from __future__ import annotations

import operator
from typing import Any

from numba.core import types
from numba.core.compiler import Flags

from batchcast.compiled.passes import Remembering, Settled

FLAGS: Any = Flags  # numba has no annotations


class Asked:
    """A typing context that counts its queries and knows no addition of texts."""

    def __init__(self) -> None:
        self.questions = 0

    def resolve_function_type(self, _: Any, arguments: Any, __: Any) -> Any:
        self.questions += 1
        return None if types.unicode_type in arguments else types.float64(*arguments)


def flags(**given: Any) -> Any:
    settings = FLAGS()
    for name, value in given.items():
        setattr(settings, name, value)
    return settings


def test_the_same_kinds_are_asked_of_numba_once_and_others_again() -> None:
    asked = Asked()
    context = Remembering(asked, flags(error_model="numpy", nrt=False))
    pair = (types.Array(types.float64, 3, "F"), types.float64)
    first, second = (context.resolve_function_type(operator.matmul, pair, {}) for _ in range(2))
    assert first is second
    assert asked.questions == 1
    context.resolve_function_type(operator.matmul, pair[::-1], {})
    assert asked.questions == 2


def test_another_way_of_compiling_asks_anew() -> None:
    asked = Asked()
    kinds = (types.Array(types.float32, 3, "F"), types.float32)
    for settings in (flags(nrt=False), flags(nrt=True), flags(nrt=True)):
        Remembering(asked, settings).resolve_function_type(operator.matmul, kinds, {})
    assert asked.questions == 2


def test_what_does_not_exist_is_asked_again_for_numba_to_say_why() -> None:
    asked = Asked()
    context = Remembering(asked, flags(nrt=False))
    for _ in range(2):
        assert context.resolve_function_type(operator.matmul, (types.unicode_type,) * 2, {}) is None
    assert asked.questions == 2


def test_two_kernels_compiled_alike_count_as_one_way_of_compiling() -> None:
    assert len({Settled(flags(nrt=False)), Settled(flags(nrt=False)), Settled(flags(nrt=True))}) == 2
