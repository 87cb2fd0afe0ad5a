# SPDX-License-Identifier: Apache-2.0
"""What an operation on these kinds gives is asked of numba once, not at every place of every kernel.

numba tries some fifty declarations of `+`, each with and without literals, wherever two numbers are added: a fifth of
what compiling costs. Its answer depends on the operation, the kinds of its arguments and how kernels are compiled.
"""

from __future__ import annotations

from types import BuiltinFunctionType
from typing import Any

from llvmlite import binding
from numba.core import compiler, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import LoweringPass, register_pass
from numba.core.typed_passes import InlineOverloads, IRLegalization, NopythonRewrites
from numba.core.untyped_passes import (
    FindLiterallyCalls,
    InlineClosureLikes,
    InlineInlinables,
    LiteralPropagationSubPipelinePass,
    LiteralUnroll,
    MakeFunctionToJitFunction,
    WithLifting,
)

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


Library: Any = JITCodeLibrary  # numba has no annotations here
Compiler: Any = CompilerBase
Pass: Any = LoweringPass
PASSES: Any = DefaultPassBuilder
REGISTER: Any = register_pass
ENVIRONMENT = "_ZN08NumbaEnv"
NEEDLESS = {  # for closures, `with`, unrolled tuples, arrays computed as a whole: not where nothing is made
    *(WithLifting, InlineClosureLikes, MakeFunctionToJitFunction, InlineInlinables, InlineOverloads),
    *(FindLiterallyCalls, LiteralUnroll, LiteralPropagationSubPipelinePass, NopythonRewrites),
}


class Part(Library):  # type: ignore[misc]
    """The code of one kernel for others to take in; of its own it has only the places of environments."""

    def _optimize_final_module(self) -> None:
        """Left to whatever takes it in."""

    def _finalize_final_module(self) -> None:
        """Keep the code for linking, and hand the engine no more than the places that numba writes to."""
        self._finalized = True
        code = self._get_module_for_linking()
        names = [each.name for each in code.global_variables if each.name.startswith(ENVIRONMENT)]
        places = "\n".join(f'@"{name}" = common global ptr null' for name in names)
        self._final_module = binding.parse_assembly(f'target triple = "{code.triple}"\n{places}')
        self._final_module.name = self.name
        super()._finalize_final_module()


class Whole(Library):  # type: ignore[misc]
    """The code of a kernel that Python calls, with all that it calls: nothing else needs what it took in."""

    def _optimize_final_module(self) -> None:
        """With what was taken in as its own: a function called in one place then stands in that place."""
        for function in self._final_module.functions:
            if function.linkage == binding.Linkage.linkonce_odr:
                function.linkage = "internal"
        self._optimize()

    def _optimize(self) -> None:
        """As numba does."""
        super()._optimize_final_module()


class Branching(Whole):
    """The same without vectors: for loops that are short or end early they cost more than they give."""

    def _optimize(self) -> None:
        """Once: numba's first, cheap round is there for counted references, and a kernel has none."""
        passes, builder = self._codegen._module_pass_manager(loop_vectorize=False, slp_vectorize=False)
        passes.run(self._final_module, builder)


@REGISTER(mutates_CFG=False, analysis_only=True)
class IntoOthers(Pass):  # type: ignore[misc]
    """Let the kernel be lowered into a `Part` where Python has no way in, else into a `Whole`."""

    _name = "batchcast_into_others"

    def __init__(self) -> None:
        Pass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """No change of the code."""
        library = Part if state.flags.no_cpython_wrapper else state.pipeline.whole
        state.library = library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return False


class Pipeline(Compiler):  # type: ignore[misc]
    """numba's own passes that a kernel has something for, and that one before code is made."""

    whole = Whole

    def __init__(self, context: Any, target: Any, library: Any, arguments: Any, result: Any, flags: Any, names: Any):
        super().__init__(Remembering(context, flags), target, library, arguments, result, Settled(flags), names)

    def define_pipelines(self) -> list[Any]:
        """One pipeline: there is no other mode to fall back to."""
        passes = PASSES.define_nopython_pipeline(self.state)
        if not self.state.flags.nrt:
            passes.passes = [each for each in passes.passes if each[0] not in NEEDLESS]
        passes.add_pass_after(IntoOthers, IRLegalization)
        passes.finalize()
        return [passes]


class BranchingPipeline(Pipeline):
    """The same for a kernel of branches."""

    whole = Branching
