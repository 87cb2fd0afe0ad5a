# SPDX-License-Identifier: Apache-2.0
"""One kernel calls another where that one already is, instead of taking its code in and compiling it once more."""

from __future__ import annotations

from typing import Any

import numba
from numba import types
from numba.extending import intrinsic

from . import inner
from .versions import OWN_PASSES

TYPES: Any = types  # numba has no annotations here


def address_of(whole: Any, *arguments: Any) -> int:
    """Where the machine code of a kernel for such arguments begins; it is compiled, or read, if it was not yet.

    The address holds as long as this process. 0 without the project's own passes: nobody asks for it then.
    """
    if not OWN_PASSES:
        return 0
    kinds = tuple(map(numba.typeof, arguments))
    whole.compile(kinds)
    compiled = whole.overloads[kinds]
    return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name))


def _call_there(_context: Any, address: Any, record: Any, rules: Any) -> Any:
    """Call the kernel of two arrays at an `address_of` it; it returns an int64."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        convention, kinds = context.call_conv, signature.args[1:]
        code = convention.get_function_type(TYPES.int64, kinds)
        there = builder.inttoptr(arguments[0], code.as_pointer())
        _, result = convention.call_function(builder, there, TYPES.int64, kinds, arguments[1:])
        return result

    return TYPES.int64(TYPES.int64, record, rules), build


_at_address: Any = intrinsic(_call_there)


def called_there(whole: Any) -> Any:
    """What kernels call as (address of `whole`, record, rules): at the address, or by name without our own passes."""
    if OWN_PASSES:
        return _at_address

    @inner
    def by_name(_address: int, record: Any, rules: Any) -> int:
        result: int = whole(record, rules)
        return result

    return by_name
