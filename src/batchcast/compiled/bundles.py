# SPDX-License-Identifier: Apache-2.0
"""Kernels take a named tuple of arrays as one address.

numba passes a named tuple by its members, seven machine words for each array, to every kernel and from each kernel to
the next: most of what compiling a scheduler's kernels cost, and none of their work. A class registered here is passed
as the address of its members instead; kernels read them as before, `state.free[k]`, and cannot put another array in
their place, nor make one.
"""

from __future__ import annotations

import hashlib
from typing import Any

from llvmlite import ir
from numba import extending
from numba.core import cgutils, types
from numba.core.typing import templates
from numba.np import arrayobj

BARRIER = "=r,0,~{memory}"
COUNT, DATA = 2, 4  # places in numba's array: how many entries, and their address; nobody owns it (the first two)

# numba has no annotations
LLVM: Any = cgutils
EXTEND: Any = extending
TYPES: Any = types
ARRAYS: Any = arrayobj
TEMPLATES: Any = templates


class ByAddress(types.Type):
    """The address of a named tuple's members; equal where class and kinds of members are."""

    def __init__(self, bundle: Any, members: tuple[Any, ...]) -> None:
        self.bundle = bundle
        self.members = members
        self.names: tuple[str, ...] = bundle._fields
        kinds = hashlib.sha256(repr((bundle.__module__, self.names, members)).encode()).hexdigest()
        super().__init__(name=f"{bundle.__name__}_{kinds[:16]}")

    @property
    def key(self) -> tuple[type, tuple[Any, ...]]:
        """What makes two of them one."""
        return self.bundle, self.members

    @property
    def mangling_args(self) -> tuple[str, tuple[()]]:
        """A short name in the machine code's symbols."""
        return self.name, ()


def register(bundle: Any) -> None:
    """Let kernels get instances of this named tuple class by address."""

    def kind_of(value: Any, context: Any) -> ByAddress:
        return ByAddress(bundle, tuple(EXTEND.typeof_impl(member, context) for member in value))

    EXTEND.typeof_impl.register(bundle, kind_of)


def kind_of_member(_: Any, bundle: ByAddress, name: str) -> Any:
    """A member's kind by its name; None where there is no such member: numba then says so."""
    return bundle.members[bundle.names.index(name)] if name in bundle.names else None


def _lean(kind: Any) -> bool:
    """Whether an array is known by where it begins and its shape."""
    return isinstance(kind, TYPES.Array) and kind.layout == "C"


def _layout(context: Any, bundle: ByAddress) -> Any:
    word = context.get_value_type(TYPES.intp)
    return ir.LiteralStructType(
        [
            ir.LiteralStructType([ir.IntType(8).as_pointer(), ir.ArrayType(word, kind.ndim)])
            if _lean(kind)
            else context.get_data_type(kind)
            for kind in bundle.members
        ]
    )


def write_members(bundle: ByAddress, value: Any, c: Any) -> Any:
    """Members from a Python tuple to the caller's stack, which outlives the call."""
    space = LLVM.alloca_once(c.builder, _layout(c.context, bundle))
    failed = LLVM.false_bit
    undo = []
    for place, kind in enumerate(bundle.members):
        native = c.unbox(kind, c.pyapi.tuple_getitem(value, place))
        failed = c.builder.or_(failed, native.is_error)
        to = LLVM.gep_inbounds(c.builder, space, 0, place)
        if _lean(kind):
            array = c.context.make_array(kind)(c.context, c.builder, native.value)
            data = c.builder.bitcast(array.data, ir.IntType(8).as_pointer())
            c.builder.store(data, LLVM.gep_inbounds(c.builder, to, 0, 0))
            c.builder.store(array.shape, LLVM.gep_inbounds(c.builder, to, 0, 1))
        else:
            c.context.pack_value(c.builder, kind, native.value, to)
        undo.append((kind, native))

    def give_back() -> None:
        for kind, native in reversed(undo):
            if native.cleanup is not None:
                native.cleanup()
            if c.context.enable_nrt:
                c.context.nrt.decref(c.builder, kind, native.value)

    # loads are said to be invariant, so the compiler must not see that the members were written here
    address = c.builder.bitcast(space, ir.IntType(8).as_pointer())
    barrier = ir.InlineAsm(ir.FunctionType(address.type, [address.type]), "", BARRIER, side_effect=True)
    return EXTEND.NativeValue(c.builder.call(barrier, [address]), is_error=failed, cleanup=give_back)


def read_member(context: Any, builder: Any, bundle: ByAddress, address: Any, name: str) -> Any:
    """A member, read where it is used."""
    place = bundle.names.index(name)
    kind = bundle.members[place]
    whole = builder.bitcast(address, _layout(context, bundle).as_pointer())
    at = LLVM.gep_inbounds(builder, whole, 0, place)
    if not _lean(kind):
        return context.unpack_value(builder, kind, at)
    fixed = builder.module.add_metadata([])

    def load(pointer: Any) -> Any:
        word = builder.load(pointer)
        word.set_metadata("invariant.load", fixed)
        return word

    words = context.get_value_type(TYPES.intp)
    itemsize = words(context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    shape = load(LLVM.gep_inbounds(builder, at, 0, 1))
    count = shape_of = builder.extract_value(shape, kind.ndim - 1)
    stride, strides = itemsize, builder.insert_value(ir.Constant(shape.type, ir.Undefined), itemsize, kind.ndim - 1)
    for axis in reversed(range(kind.ndim - 1)):
        stride = builder.mul(stride, shape_of)
        strides = builder.insert_value(strides, stride, axis)
        shape_of = builder.extract_value(shape, axis)
        count = builder.mul(count, shape_of, flags=["nsw"])
    array = context.get_value_type(kind)
    data = builder.bitcast(load(LLVM.gep_inbounds(builder, at, 0, 0)), array.elements[DATA])
    owner, rest = array.elements[:COUNT], array.elements[COUNT:]
    blank = [ir.Constant(each, None) for each in owner] + [ir.Constant(each, ir.Undefined) for each in rest]
    value = ir.Constant(array, blank)
    for place, member in enumerate((count, itemsize, data, shape, strides), start=COUNT):
        value = builder.insert_value(value, member, place)
    return value


EXTEND.register_model(ByAddress)(EXTEND.models.OpaqueModel)
EXTEND.unbox(ByAddress)(write_members)
EXTEND.lower_getattr_generic(ByAddress)(read_member)
EXTEND.infer_getattr(
    type("Members", (TEMPLATES.AttributeTemplate,), {"key": ByAddress, "generic_resolve": kind_of_member})
)
