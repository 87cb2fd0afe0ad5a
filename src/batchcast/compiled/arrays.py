"""The arrays of a record inside a kernel: typed, nothing copied.

A field of a record is the address of an array and its length (`records`). So a kernel of thirteen arrays takes one
argument: calls are cheap, signatures short, and a call from Python looks at one array instead of thirteen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj
from numba.np.numpy_support import from_dtype

_BUILD: Any = cgutils  # numba has no annotations here
_ARRAYS: Any = arrayobj
Record = Any
"""One entry of a structured array inside a kernel: fields by attribute."""


def array_in(name: str, dtype: Any, columns: int = 0) -> Callable[[Record], Any]:
    """How a kernel gets the array of this name out of its record: (n,) of `dtype`, or (n, columns)."""
    element = from_dtype(np.dtype(dtype))
    array = types.Array(element, 2 if columns else 1, "C")

    @intrinsic
    def in_record(_context: Any, record: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            from llvmlite import ir

            word, byte = ir.IntType(64), ir.IntType(8)
            base = builder.bitcast(arguments[0], byte.as_pointer())

            def load(field: str, kind: Any) -> Any:
                at = _BUILD.gep_inbounds(builder, base, ir.Constant(word, record.offset(field)))
                loaded = builder.load(builder.bitcast(at, kind.as_pointer()))
                loaded.set_metadata("invariant.load", builder.module.add_metadata([]))  # no kernel moves an array
                return loaded

            view = _ARRAYS.make_array(array)(context, builder)
            size = context.get_abi_sizeof(context.get_data_type(element))
            data = load(name, context.get_data_type(element).as_pointer())
            shape, strides = [load(f"{name}_size", word)], [ir.Constant(word, size)]
            if columns:
                shape, strides = [*shape, ir.Constant(word, columns)], [ir.Constant(word, size * columns), *strides]
            _ARRAYS.populate_array(view, data, shape, strides, ir.Constant(word, size), None)
            return view._getvalue()

        return array(record), build

    return cast(Callable[[Record], Any], in_record)
