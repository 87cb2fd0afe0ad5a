"""Kernels that only kernels call are optimised where they are called, not by themselves as well.

numba optimises every function with all that it calls, so what lies four calls deep is optimised four times, and makes
machine code that nobody jumps to. A part keeps its code as it was lowered; whatever takes it in optimises the whole.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding
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

from .typing_cache import Remembering, Settled

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
