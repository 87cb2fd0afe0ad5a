# SPDX-License-Identifier: Apache-2.0
"""batchcast's own compiler passes for numba, which compile a scheduling kernel in a fraction of numba's time.

The passes make two steps faster that took most of the compile time.

numba passes a named tuple to a kernel by its members, seven machine words for each array. A named tuple class that is
registered in this module is passed as the address of its members instead. Kernels read the members as before
(`state.free[k]`), but cannot replace an array or create a tuple of a registered class.

For every addition of two numbers, numba tries some fifty declarations of `+`, each with and without literals. The
result depends only on the operation, the types of its arguments and the options, so it is computed once and cached.
"""

from __future__ import annotations

import hashlib
from types import BuiltinFunctionType
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import extending
from numba.core import cgutils, compiler, types, untyped_passes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import LoweringPass, register_pass
from numba.core.typed_passes import InlineOverloads, IRLegalization, NopythonRewrites
from numba.core.typing import templates
from numba.np import numpy_support

BARRIER = "=r,0,~{memory}"
COUNT, DATA = 2, 4  # indices in numba's array struct: number of entries, and address; indices 0 and 1 are the owner


class ByAddress(types.Type):
    """The numba type of a named tuple that is passed by address. Types are equal if their class and member types are
    equal.
    """

    def __init__(self, bundle: Any, members: tuple[Any, ...]) -> None:
        self.bundle = bundle
        self.members = members
        self.names: tuple[str, ...] = bundle._fields
        kinds = hashlib.sha256(repr((bundle.__module__, self.names, members)).encode()).hexdigest()
        super().__init__(name=f"{bundle.__name__}_{kinds[:16]}")

    @property
    def key(self) -> tuple[type, tuple[Any, ...]]:
        """The values that must be equal for two types to count as equal."""
        return self.bundle, self.members

    @property
    def mangling_args(self) -> tuple[str, tuple[()]]:
        """A short name for symbols in the machine code."""
        return self.name, ()


def register(bundle: Any) -> None:
    """Let kernels receive instances of this named tuple class by address."""

    def kind_of(value: Any, context: Any) -> ByAddress:
        return ByAddress(bundle, tuple(extending.typeof_impl(member, context) for member in value))

    extending.typeof_impl.register(bundle, kind_of)


ANY_ARRAY = extending.typeof_impl.dispatch(np.ndarray)


def kind_of_array(value: np.ndarray, context: Any) -> Any:
    """Return the numba type of an array, without the import of NumPy's masked arrays that numba's own function
    needs.
    """
    if type(value) is not np.ndarray or value.dtype.kind not in "biufV":
        return ANY_ARRAY(value, context)
    layout, readonly = numpy_support.map_layout(value), not value.flags.writeable
    return types.Array(numpy_support.from_dtype(value.dtype), value.ndim, layout, readonly=readonly)


extending.typeof_impl.register(np.ndarray, kind_of_array)


def kind_of_member(_: Any, bundle: ByAddress, name: str) -> Any:
    """Return the type of a member by name; None if no member has this name, in which case numba reports an error."""
    return bundle.members[bundle.names.index(name)] if name in bundle.names else None


def _lean(kind: Any) -> bool:
    """Whether an array is fully described by its address and its shape."""
    return isinstance(kind, types.Array) and kind.layout == "C"


def _layout(context: Any, bundle: ByAddress) -> Any:
    """Return the memory layout of a named tuple's members."""
    word = context.get_value_type(types.intp)
    return ir.LiteralStructType(
        [
            ir.LiteralStructType([ir.IntType(8).as_pointer(), ir.ArrayType(word, kind.ndim)])
            if _lean(kind)
            else context.get_data_type(kind)
            for kind in bundle.members
        ]
    )


def write_members(bundle: ByAddress, value: Any, c: Any) -> Any:
    """Write the members of a Python tuple to the caller's stack, which outlives the call."""
    space = cgutils.alloca_once(c.builder, _layout(c.context, bundle))
    failed = cgutils.false_bit
    undo = []
    for place, kind in enumerate(bundle.members):
        native = c.unbox(kind, c.pyapi.tuple_getitem(value, place))
        failed = c.builder.or_(failed, native.is_error)
        to = cgutils.gep_inbounds(c.builder, space, 0, place)
        if _lean(kind):
            array = c.context.make_array(kind)(c.context, c.builder, native.value)
            data = c.builder.bitcast(array.data, ir.IntType(8).as_pointer())
            c.builder.store(data, cgutils.gep_inbounds(c.builder, to, 0, 0))
            c.builder.store(array.shape, cgutils.gep_inbounds(c.builder, to, 0, 1))
        else:
            c.context.pack_value(c.builder, kind, native.value, to)
        undo.append((kind, native))

    def give_back() -> None:
        for kind, native in reversed(undo):
            if native.cleanup is not None:
                native.cleanup()
            if c.context.enable_nrt:
                c.context.nrt.decref(c.builder, kind, native.value)

    # `read_member` marks its loads as invariant. With invariant loads, LLVM may drop the stores above, unless a barrier
    # hides the stores.
    address = c.builder.bitcast(space, ir.IntType(8).as_pointer())
    barrier = ir.InlineAsm(ir.FunctionType(address.type, [address.type]), "", BARRIER, side_effect=True)
    return extending.NativeValue(c.builder.call(barrier, [address]), is_error=failed, cleanup=give_back)


def read_member(context: Any, builder: Any, bundle: ByAddress, address: Any, name: str) -> Any:
    """Generate the code that reads one member of a tuple."""
    place = bundle.names.index(name)
    kind = bundle.members[place]
    whole = builder.bitcast(address, _layout(context, bundle).as_pointer())
    at = cgutils.gep_inbounds(builder, whole, 0, place)
    if not _lean(kind):
        return context.unpack_value(builder, kind, at)
    fixed = builder.module.add_metadata([])

    def load(pointer: Any) -> Any:
        word = builder.load(pointer)
        word.set_metadata("invariant.load", fixed)
        return word

    words = context.get_value_type(types.intp)
    itemsize = words(context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    shape = load(cgutils.gep_inbounds(builder, at, 0, 1))
    count = shape_of = builder.extract_value(shape, kind.ndim - 1)
    stride, strides = itemsize, builder.insert_value(ir.Constant(shape.type, ir.Undefined), itemsize, kind.ndim - 1)
    for axis in reversed(range(kind.ndim - 1)):
        stride = builder.mul(stride, shape_of)
        strides = builder.insert_value(strides, stride, axis)
        shape_of = builder.extract_value(shape, axis)
        count = builder.mul(count, shape_of, flags=["nsw"])
    array = context.get_value_type(kind)
    data = builder.bitcast(load(cgutils.gep_inbounds(builder, at, 0, 0)), array.elements[DATA])
    owner, rest = array.elements[:COUNT], array.elements[COUNT:]
    blank = [ir.Constant(each, None) for each in owner] + [ir.Constant(each, ir.Undefined) for each in rest]
    value = ir.Constant(array, blank)
    for place, member in enumerate((count, itemsize, data, shape, strides), start=COUNT):
        value = builder.insert_value(value, member, place)
    return value


extending.register_model(ByAddress)(extending.models.OpaqueModel)
extending.unbox(ByAddress)(write_members)
extending.lower_getattr_generic(ByAddress)(read_member)
extending.infer_getattr(
    type("Members", (templates.AttributeTemplate,), {"key": ByAddress, "generic_resolve": kind_of_member})
)


SIGNATURES: dict[Any, Any] = {}  # signatures by operation, argument types and flags of the kernel


class Settled(compiler.Flags):
    """Compiler flags with a fast comparison. numba compares thirty options, a hundred thousand times per kernel."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(Settled)

    def __eq__(self, other: object) -> bool:
        return self._values == other._values if isinstance(other, Settled) else NotImplemented


class Remembering:
    """numba's typing context with a cache (`SIGNATURES`) of resolved signatures; other attributes come from the context
    itself.
    """

    def __init__(self, context: Any, flags: Any) -> None:
        self._context = context
        self._flags = flags.summary()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, function: Any, arguments: Any, keywords: Any) -> Any:
        """Return the signature of a function for argument types. Failures are not cached, because numba reports
        their reason.
        """
        key = (function, tuple(arguments), tuple(keywords.items()), self._flags)
        lasting = isinstance(function, BuiltinFunctionType) or type(function) is types.Function
        answer = SIGNATURES.get(key) if lasting else None
        if answer is None:
            answer = self._context.resolve_function_type(function, arguments, keywords)
            if lasting and answer is not None:
                SIGNATURES[key] = answer
        return answer


ENVIRONMENT = "_ZN08NumbaEnv"
NEEDLESS = {  # passes for closures, `with`, unrolled tuples and array expressions, which our kernels do not have
    *(untyped_passes.WithLifting, untyped_passes.InlineClosureLikes, untyped_passes.MakeFunctionToJitFunction),
    *(untyped_passes.InlineInlinables, untyped_passes.FindLiterallyCalls, untyped_passes.LiteralUnroll),
    *(untyped_passes.LiteralPropagationSubPipelinePass, InlineOverloads, NopythonRewrites),
}


def _places_alone(code: Any, entries: Any = ()) -> Any:
    """Return an LLVM module with only numba's variables for environments, and empty functions with the names in
    `entries`."""
    names = [each.name for each in code.global_variables if each.name.startswith(ENVIRONMENT)]
    lines = [f'@"{name}" = common global ptr null' for name in names]
    lines += [f'define void @"{name}"() {{\n ret void\n}}' for name in entries]
    return binding.parse_assembly("\n".join([f'target triple = "{code.triple}"', *lines]))


class Part(JITCodeLibrary):
    """The code of a kernel that only other kernels link; its own LLVM module has only the variables for
    environments.
    """

    def _optimize_final_module(self) -> None:
        """Do nothing, because the kernel that links this code also optimizes the code."""

    def _finalize_final_module(self) -> None:
        """Keep the code for linking, and give the execution engine only the variables that numba writes to."""
        self._finalized = True
        self._final_module = _places_alone(self._get_module_for_linking())
        self._final_module.name = self.name
        super()._finalize_final_module()


class Whole(JITCodeLibrary):
    """The code of a kernel that Python calls, with the code of all kernels that it calls."""

    def _optimize_final_module(self) -> None:
        """Make linked functions internal, so that a function with one caller is inlined."""
        for function in self._final_module.functions:
            if function.linkage == binding.Linkage.linkonce_odr:
                function.linkage = "internal"
        self._optimize()

    def serialize_using_object_code(self) -> Any:
        """Return machine code and names to store on disk, without bitcode, which is slow to read and not needed."""
        self._ensure_finalized()
        code = self._final_module
        entries = [
            each.name for each in code.functions
            if not each.is_declaration and each.linkage == binding.Linkage.external
        ]  # fmt: skip
        return self.name, "object", (self._get_compiled_object(), _places_alone(code, entries).as_bitcode())

    def _optimize(self) -> None:
        """Optimize the code as numba does."""
        super()._optimize_final_module()


class Branching(Whole):
    """A `Whole` without vector instructions, which slow short loops down."""

    def _optimize(self) -> None:
        """Optimize the code once. numba's additional first round removes reference counts, which kernels do not
        have."""
        passes, builder = self._codegen._module_pass_manager(loop_vectorize=False, slp_vectorize=False)
        passes.run(self._final_module, builder)


@register_pass(mutates_CFG=False, analysis_only=True)
class IntoOthers(LoweringPass):
    """A pass that stores the code of a kernel without entry point for Python as `Part`, and of other kernels as
    `Whole`.
    """

    _name = "batchcast_into_others"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Choose the class that stores the code (`Part` or `Whole`); the code itself does not change."""
        library = Part if state.flags.no_cpython_wrapper else state.pipeline.whole
        state.library = library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return False


class Pipeline(CompilerBase):
    """A pipeline of the numba passes that kernels need, with `IntoOthers` before code generation."""

    whole = Whole

    def __init__(self, context: Any, target: Any, library: Any, arguments: Any, result: Any, flags: Any, names: Any):
        super().__init__(Remembering(context, flags), target, library, arguments, result, Settled(flags), names)

    def define_pipelines(self) -> list[Any]:
        """Return a single pipeline; there is no second pipeline to fall back to."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        if not self.state.flags.nrt:
            passes.passes = [each for each in passes.passes if each[0] not in NEEDLESS]
        passes.add_pass_after(IntoOthers, IRLegalization)
        passes.finalize()
        return [passes]


class BranchingPipeline(Pipeline):
    """The pipeline for kernels with many branches."""

    whole = Branching
