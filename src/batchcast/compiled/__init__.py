# SPDX-License-Identifier: Apache-2.0
"""Decorators for all compiled code (kernels): exact floating point, cached on disk until the code changes.

numba notices a change in the file of a kernel, but not a change in other kernels that the kernel calls. Therefore the
name of the cache folder depends on all code with kernels (`place`), and for the kernels of another package also on all
code of that package. If no cache folder is writable, kernels are
compiled at every start. A line on the terminal shows the first compilation (`once`).
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
        "forceinline": False,  # without an explicit value, a kernel inherits this option from its first caller
        "pipeline_class": Pipeline,
    }
    BRANCHING = {**OPTIONS, "pipeline_class": BranchingPipeline}
INNER: dict[str, Any] = {**OPTIONS, "no_cpython_wrapper": True}
KEY = (types.float64,) * 5  # (now, submit, procs, planned, wait)
Function = TypeVar("Function", bound=Callable[..., Any])
Bundle = TypeVar("Bundle", bound=type)


def kernel(function: Function) -> Function:
    """Compile a function with numba at its first call, for kernels that take arrays and allocate none.

    Fast-math is off, because schedules are compared by their exact start times. Without numba's run-time (`_nrt`),
    arrays are not reference-counted at every call, which took half of the scheduling kernel's time.
    """
    return _compiled(function, OPTIONS)


def branching(function: Function) -> Function:
    """Compile a `kernel` with many branches, such as a scheduler, without vector instructions, which slow short
    loops down.
    """
    return _compiled(function, BRANCHING)


def inner(function: Function) -> Function:
    """Compile a kernel that only other kernels call. Without an entry point for Python, compilation takes half the
    time.
    """
    return _compiled(function, INNER)


def inlined(function: Function) -> Function:
    """Compile a small `inner` kernel and inline it into the kernels that call it."""
    return _compiled(function, {**INNER, "forceinline": True})


def allocating(function: Function) -> Function:
    """Compile a kernel that may allocate arrays, with numba's run-time."""
    return _compiled(function, {**OPTIONS, "_nrt": True})


def by_address(bundle: Bundle) -> Bundle:
    """Let kernels receive instances of a named tuple class by memory address (see `passes`). The members of the named
    tuple are arrays and numbers.

    Without batchcast's own passes, numba passes all members of the tuple, as for other named tuples.
    """
    if OWN_PASSES:
        from .passes import register

        register(bundle)
    return bundle


def _compiled(function: Function, options: dict[str, Any]) -> Function:
    """Return the compiled function for the given options."""
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
    """Return numba's dispatcher for a function. The dispatcher's cache is in the subfolder `room`, because a function
    can be compiled in two ways.

    The cache is set up at the first compilation, because numba writes a test file to the folder, and most kernels of a
    command are never called.
    """
    folder = kernel_folder(function.__module__.partition(".")[0])
    compiled = numba.njit(function, **options)

    def keep() -> None:
        usual, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(Path(folder) / room)
        try:
            compiled.enable_caching()
        finally:
            numba.config.CACHE_DIR = usual
        if OWN_PASSES:
            read_alone(compiled)

    if folder and OWN_PASSES:
        compile_once(compiled, folder, keep)
    elif folder:
        keep()
    return compiled


def _part(function: Function, options: dict[str, Any]) -> Any:
    """Return a dispatcher for calls from kernels only.

    Constant arguments are treated like other arguments of their type, so that they cause no further compilation. A call
    from Python raises TypeError, because it would crash the process.
    """
    compiled = _cached(function, options, "parts")
    template = compiled.get_call_template

    def for_types(args: Any, keywords: Any) -> Any:
        return template(
            tuple(map(types.unliteral, args)), {name: types.unliteral(kind) for name, kind in keywords.items()}
        )

    def refuse(*_: Any, **__: Any) -> Any:
        raise TypeError(f"only kernels can call {function.__name__}; from Python, call {function.__name__}.py_func")

    compiled.get_call_template = for_types
    compiled._insert = lambda *_: None
    compiled._compile_for_args = refuse
    return compiled


def compile_key(function: Callable[..., float]) -> Any:
    """Compile a Python function of five float64 arguments to an object with an `address`; raises numba's errors on
    failure.

    The caller must keep a reference to the object as long as the address is used.
    """
    return numba.cfunc(types.float64(*KEY), error_model="numpy")(function)


def reads(function: Callable[..., float], positions: tuple[int, ...]) -> bool:
    """Whether a function of five float64 arguments uses the arguments at the given positions.

    The function is compiled with a type that has no operations at these positions. Compilation fails if the function
    uses these arguments.
    """
    nothing = types.Opaque("nothing")
    kinds = tuple(nothing if position in positions else kind for position, kind in enumerate(KEY))
    try:
        numba.njit(function, error_model="numpy").compile(kinds)
    except Exception:  # numba raises many types of errors; each means that the argument is used
        return True
    return False


@intrinsic
def call_address(context: Any, address: Any, *numbers: Any) -> Any:
    """Call machine code made by `compile_key` at an address: an indirect call without any look-up."""
    from llvmlite import ir

    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        real = ir.DoubleType()
        kind = ir.FunctionType(real, [real] * 5)
        place, values = arguments[0], arguments[1]
        code = builder.inttoptr(place, kind.as_pointer())
        return builder.call(code, cgutils.unpack_tuple(builder, values))

    return types.float64(types.int64, types.UniTuple(types.float64, 5)), build
