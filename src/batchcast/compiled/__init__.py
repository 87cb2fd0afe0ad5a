# SPDX-License-Identifier: Apache-2.0
"""All compiled code is decorated here: exact floating point, cached on disk, compiled once for this very code.

numba notices a change in the file of a kernel but not in the kernels that it calls, so the folder of the cache is named
by the state of all code (`place`). Where no folder can be written a kernel still compiles, at every start. While it
compiles for the first time it says so, on a terminal only (`progress`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from .versions import OWN_PASSES, numba_alone

with numba_alone():
    import numba
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

from .place import kernel_folder

CONFIG: Any = numba.config
UNTYPED: Any = cgutils  # numba has no annotations here
TYPES: Any = types
PUBLIC: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
OPTIONS: dict[str, Any] = PUBLIC
BRANCHING: dict[str, Any] = PUBLIC
if OWN_PASSES:
    from .once import compile_once, read_alone, watch_compiler
    from .passes import BranchingPipeline, Pipeline

    OPTIONS = {
        **PUBLIC,
        "_nrt": False,
        "no_cfunc_wrapper": True,
        "forceinline": False,  # else inherited from whatever kernel asks first
        "pipeline_class": Pipeline,
    }
    BRANCHING = {**OPTIONS, "pipeline_class": BranchingPipeline}
INNER: dict[str, Any] = {**OPTIONS, "no_cpython_wrapper": True}
KEY = (types.float64,) * 5  # (now, submit, procs, planned, wait)
Function = TypeVar("Function", bound=Callable[..., Any])
Bundle = TypeVar("Bundle", bound=type)


def kernel(function: Function) -> Function:
    """The function compiled by numba at its first call, without fast-math: schedules are compared start by start.

    For kernels that take arrays and make none: without numba's run-time (`_nrt`) no array is counted at every call,
    which was half of the scheduling kernel's time.
    """
    return _compiled(function, OPTIONS)


def branching(function: Function) -> Function:
    """A `kernel` that decides more than it computes: a scheduler. Its loops are short or end early, vectors slow it."""
    return _compiled(function, BRANCHING)


def inner(function: Function) -> Function:
    """The same for a kernel that only kernels call: without the way in from Python it compiles in half the time."""
    return _compiled(function, INNER)


def inlined(function: Function) -> Function:
    """An `inner` kernel, small and called often: its code stands where it is called."""
    return _compiled(function, {**INNER, "forceinline": True})


def allocating(function: Function) -> Function:
    """The same for a kernel that makes arrays of its own."""
    return _compiled(function, {**OPTIONS, "_nrt": True})


def by_address(bundle: Bundle) -> Bundle:
    """A named tuple class whose instances kernels get by address (see `passes`); its members are arrays and numbers.

    Without the project's own passes numba passes it by its members, as any named tuple.
    """
    if OWN_PASSES:
        from .passes import register

        register(bundle)
    return bundle


def _compiled(function: Function, options: dict[str, Any]) -> Function:
    if not OWN_PASSES:
        return cast(Function, _cached(function, PUBLIC, "public"))
    watch_compiler()
    if options.get("no_cpython_wrapper"):
        return cast(Function, _part(function, options))
    whole = _cached(function, options, "")

    @cache
    def part() -> Any:
        return _part(function, {**options, "no_cpython_wrapper": True})

    whole.get_call_template = lambda *kinds: part().get_call_template(*kinds)
    whole.get_overload = lambda signature: part().get_overload(signature)
    return cast(Function, whole)


def _cached(function: Function, options: dict[str, Any], room: str) -> Any:
    """numba's dispatcher, kept in a room of the folder of kernels: a function may be compiled in two ways.

    Its place there is looked for when it is first compiled: numba writes a file to try the folder, and most kernels of
    a command are never called.
    """
    folder = kernel_folder()
    compiled = numba.njit(function, **options)

    def keep() -> None:
        usual, CONFIG.CACHE_DIR = CONFIG.CACHE_DIR, str(Path(folder) / room)
        try:
            compiled.enable_caching()
        finally:
            CONFIG.CACHE_DIR = usual
        if OWN_PASSES:
            read_alone(compiled)

    if folder and OWN_PASSES:
        compile_once(compiled, folder, keep)
    elif folder:
        keep()
    return compiled


def _part(function: Function, options: dict[str, Any]) -> Any:
    """What kernels call: see `part`. A constant argument is one of its type, not a reason to compile once more.

    What has no way in from Python is not offered to Python: a call says so, where it would end the process.
    """
    compiled = _cached(function, options, "parts")
    template = compiled.get_call_template

    def for_types(args: Any, keywords: Any) -> Any:
        return template(
            tuple(map(TYPES.unliteral, args)), {name: TYPES.unliteral(kind) for name, kind in keywords.items()}
        )

    def refuse(*_: Any, **__: Any) -> Any:
        raise TypeError(f"only kernels call {function.__name__}; from Python: {function.__name__}.py_func")

    compiled.get_call_template = for_types
    compiled._insert = lambda *_: None
    compiled._compile_for_args = refuse
    return compiled


def compile_key(function: Callable[..., float]) -> Any:
    """A Python function of five float64 as machine code with an `address`; whatever numba raises when it cannot.

    The result must be kept as long as its address is used.
    """
    return numba.cfunc(types.float64(*KEY), error_model="numpy")(function)


def reads(function: Callable[..., float], places: tuple[int, ...]) -> bool:
    """Whether a function of five float64 makes use of the arguments at `places`.

    The compiler is asked: with something there that allows no operation it compiles only what never touches it.
    """
    nothing = types.Opaque("nothing")
    kinds = tuple(nothing if place in places else kind for place, kind in enumerate(KEY))
    try:
        numba.njit(function, error_model="numpy").compile(kinds)
    except Exception:  # numba has many kinds; each says that something was done with nothing
        return True
    return False


@intrinsic
def call_address(context: Any, address: Any, *numbers: Any) -> Any:
    """Call the machine code of `compile_key` at an address: an indirect call, nothing looked up, nothing recompiled."""
    from llvmlite import ir

    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        real = ir.DoubleType()
        kind = ir.FunctionType(real, [real] * 5)
        place, values = arguments[0], arguments[1]
        code = builder.inttoptr(place, kind.as_pointer())
        return builder.call(code, UNTYPED.unpack_tuple(builder, values))

    numbers_type: Any = types.UniTuple
    return types.float64(types.int64, numbers_type(types.float64, 5)), build
