# SPDX-License-Identifier: Apache-2.0
"""Array helpers that several kernels use.

The helpers read the arrays of a record inside a kernel, handle sets as bits of int64 words, sort short arrays, and call
a compiled kernel by its address instead of compiling the kernel again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numba
import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.core import cgutils
from numba.extending import intrinsic

from . import inlined, inner
from .versions import OWN_PASSES

Record = Any
"""One entry of a structured array inside a kernel: fields by attribute."""


def array_in(name: str, dtype: Any, columns: int = 0) -> Callable[[Record], Any]:
    """Return a function with which a kernel reads an array of shape (n,), or (n, columns), from its record."""
    if not OWN_PASSES:
        return _carray_in(name, np.dtype(dtype), columns)
    from numba.np import arrayobj

    element = from_dtype(np.dtype(dtype))
    array = types.Array(element, 2 if columns else 1, "C")

    @intrinsic
    def in_record(_context: Any, record: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            word, byte = ir.IntType(64), ir.IntType(8)
            base = builder.bitcast(arguments[0], byte.as_pointer())

            def load(field: str, kind: Any) -> Any:
                at = cgutils.gep_inbounds(builder, base, ir.Constant(word, record.offset(field)))
                loaded = builder.load(builder.bitcast(at, kind.as_pointer()))
                loaded.set_metadata("invariant.load", builder.module.add_metadata([]))  # kernels do not move arrays
                return loaded

            view = arrayobj.make_array(array)(context, builder)
            size = context.get_abi_sizeof(context.get_data_type(element))
            data = load(name, context.get_data_type(element).as_pointer())
            shape, strides = [load(f"{name}_size", word)], [ir.Constant(word, size)]
            if columns:
                shape, strides = [*shape, ir.Constant(word, columns)], [ir.Constant(word, size * columns), *strides]
            arrayobj.populate_array(view, data, shape, strides, ir.Constant(word, size), None)
            return view._getvalue()

        return array(record), build

    return cast(Callable[[Record], Any], in_record)


@intrinsic
def _pointer(_context: Any, address: Any) -> Any:
    """Convert an address to numba's pointer type."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.voidptr(address), build


def _carray_in(name: str, dtype: np.dtype[Any], columns: int) -> Callable[[Record], Any]:
    """Return a function that does the same as the result of `array_in`, built on numba's public function `carray`."""
    size = f"{name}_size"

    @inlined
    def flat(record: Record) -> Any:
        return numba.carray(_pointer(record[name]), (record[size],), dtype)

    @inlined
    def square(record: Record) -> Any:
        return numba.carray(_pointer(record[name]), (record[size], columns), dtype)

    return square if columns else flat


@intrinsic
def bits(_context: Any, mask: Any) -> Any:
    """Return the number of set bits of an int64 word."""
    return types.int64(types.int64), lambda _, builder, __, masks: builder.ctpop(masks[0])


@intrinsic
def lowest(_context: Any, mask: Any) -> Any:
    """Return the position of the lowest set bit of an int64 word; undefined for 0."""
    no_zero = ir.Constant(ir.IntType(1), 1)
    return types.int64(types.int64), lambda _, builder, __, masks: builder.cttz(masks[0], no_zero)


@inlined
def insert(value: np.ndarray, order: np.ndarray, n: int) -> None:
    """Sort the first n entries of `order` by their values, with a stable insertion sort. Costs O(n) if the entries are
    sorted, O(n**2) at worst.
    """
    for a in range(1, n):
        j = order[a]
        b = a - 1
        while b >= 0 and value[order[b]] > value[j]:
            order[b + 1] = order[b]
            b -= 1
        order[b + 1] = j


@inlined
def insert_sorted(keys: np.ndarray, values: np.ndarray, count: int, key: float, value: float) -> int:
    """Insert a value into the first `count` entries of `values`, which are sorted by `keys`, after equal keys; return
    the new number of entries.

    If the arrays are full, the last entry is dropped, or the value is not inserted.
    """
    size = len(keys)
    if count == size and not key < keys[size - 1]:
        return count
    at = count if count < size else size - 1
    while at > 0 and key < keys[at - 1]:
        keys[at], values[at] = keys[at - 1], values[at - 1]
        at -= 1
    keys[at], values[at] = key, value
    return min(count + 1, size)


def address_of(kernel: Any, *arguments: Any) -> int:
    """Return the address of a kernel's machine code for these arguments; compile or load it if needed.

    The address is valid in this process only. Without batchcast's own passes the result is 0 and is not used.
    """
    if not OWN_PASSES:
        return 0
    kinds = tuple(map(numba.typeof, arguments))
    kernel.compile(kinds)
    compiled = kernel.overloads[kinds]
    return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name))


@intrinsic
def _at_address(_context: Any, address: Any, record: Any, rules: Any) -> Any:
    """Call a kernel of two arrays at its address; the kernel returns an int64."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        convention, kinds = context.call_conv, signature.args[1:]
        code = convention.get_function_type(types.int64, kinds)
        there = builder.inttoptr(arguments[0], code.as_pointer())
        _, result = convention.call_function(builder, there, types.int64, kinds, arguments[1:])
        return result

    return types.int64(types.int64, record, rules), build


def called_there(kernel: Any) -> Any:
    """Return the function (address, record, rules) by which other kernels call `kernel`.

    The function calls `kernel` by its address, or by name if batchcast's own passes are not used.
    """
    if OWN_PASSES:
        return _at_address

    @inner
    def by_name(_address: int, record: Any, rules: Any) -> int:
        result: int = kernel(record, rules)
        return result

    return by_name
