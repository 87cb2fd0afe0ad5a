# SPDX-License-Identifier: Apache-2.0
"""Old names that still work for one version and say what they are now: of modules, and of arguments."""

from __future__ import annotations

import sys
import warnings
from functools import wraps
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

P = ParamSpec("P")
R = TypeVar("R")

MOVED = {
    "cluster.vary": "cluster.machine",
    "compiled.bundles": "compiled.passes",
    "compiled.elsewhere": "compiled.arrays",
    "compiled.part": "compiled.passes",
    "evaluation.in_periods": "evaluation.replay",
    "evaluation.periods": "evaluation.calendar",
    "evaluation.replicates": "evaluation.resampling",
    "evaluation.whatif": "results.whatif",
    "formats.problems": "formats.chunks",
    "formats.slurm.submission": "formats.slurm.plannable",
    "formats.status": "job",
    "formats.swf_header": "formats.swf_text",
    "formats.swf_write": "formats.swf_text",
    "grid.chains": "grid.assignment",
    "grid.heuristics.asjs": "grid.heuristics.deadlines",
    "grid.heuristics.best_fit": "grid.heuristics.greedy",
    "grid.heuristics.deadline_pairs": "grid.heuristics.deadlines",
    "grid.heuristics.deadline_search": "grid.heuristics.search",
    "grid.heuristics.ebest": "grid.heuristics.deadlines",
    "grid.heuristics.emin_min": "grid.heuristics.deadlines",
    "grid.heuristics.esufferage": "grid.heuristics.deadlines",
    "grid.heuristics.fast_fit": "grid.heuristics.greedy",
    "grid.heuristics.immediate": "grid.heuristics.greedy",
    "grid.heuristics.max_min": "grid.heuristics.greedy",
    "grid.heuristics.mct": "grid.heuristics.greedy",
    "grid.heuristics.met": "grid.heuristics.greedy",
    "grid.heuristics.min_min": "grid.heuristics.greedy",
    "grid.heuristics.olb": "grid.heuristics.greedy",
    "grid.heuristics.pairs": "grid.heuristics.greedy",
    "grid.heuristics.sufferage": "grid.heuristics.greedy",
    "grid.heuristics.sufferage_m99": "grid.heuristics.greedy",
    "grid.matrix": "grid.model",
    "grid.measures": "grid.study",
    "grid.proof": "grid.heuristics.exact",
    "grid.protocol": "grid.model",
    "grid.standing": "grid.assignment",
    "grid.workload": "grid.model",
    "metrics.arms": "metrics.paired",
    "metrics.chances": "metrics.wait",
    "metrics.group_sums": "metrics.paired",
    "metrics.ranks": "metrics.curves",
    "metrics.time_ranges": "metrics.accuracy",
    "metrics.totals": "metrics.schedule",
    "metrics.wait_classes": "metrics.wait",
    "pbs.client": "pbs",
    "planning.eligibility": "planning.decide",
    "planning.terms": "planning.record",
    "predict.day": "predict.gate",
    "predict.ensembles.encoding": "predict.ensembles.learner",
    "predict.ensembles.mixed_bayes": "predict.ensembles.regressors",
    "predict.ensembles.rbf": "predict.ensembles.regressors",
    "predict.features": "predict.gate",
    "predict.hazard.bursts": "predict.hazard.training_rows",
    "predict.knn.categories": "predict.runtime.smith_templates",
    "predict.knn.trial": "predict.knn.genetic",
    "predict.knn.weighted": "predict.runtime.minh_wolters",
    "predict.limit": "predict.fallback",
    "predict.limit_advice": "predict.recommend",
    "predict.names": "predict.protocol",
    "predict.numbers": "predict.gate",
    "predict.recommend_memory": "predict.peak_memory",
    "predict.similarity.elementary": "predict.similarity.compare",
    "predict.spread": "predict.fallback",
    "report.difference_plots": "report.difference",
    "report.evaluation.policies": "report.evaluation.gains",
    "report.evaluation.waste": "report.limits",
    "report.evaluation.words": "report.evaluation.first_screen",
    "report.folder": "trace.whole_file",
    "report.html": "report.blocks",
    "results.accuracy": "results.forecasts",
    "results.limits": "results.forecasts",
    "schedule.native": "schedule.orders",
    "schedule.shadow": "schedule.passes",
    "schedule.slurm.queue": "schedule.slurm.priority",
    "schedule.slurm.reorder": "schedule.slurm.simulate",
    "service.answers.moved": "service.answers.start",
    "service.answers.trial": "service.answers.who_pays",
    "service.operations.units": "cli.site.setup",
    "simulation.order": "simulation.policy",
    "simulation.placement": "simulation.schedule",
    "simulation.slurm_order": "simulation.slurm_trace",
    "simulation.split": "simulation.simulate",
    "store.export": "store.history",
    "store.issued": "store.rows",
    "store.live_rows": "store.rows",
    "store.peaks": "store.rows",
    "store.purge": "store.history",
    "store.token_text": "store.tokens",
    "sweep.plans": "sweep.compare",
    "sweep.work": "sweep.task",
    "table.exchange": "table.result",
    "table.frame": "table.result",
    "table.info": "table.columns",
    "table.nominal": "table.columns",
    "table.plain": "table.columns",
    "testing.order": "testing.policy",
    "testing.wait": "testing.predictor",
    "trace.absurd": "trace.clean",
    "trace.batsim": "trace.schedule",
    "trace.csv": "trace.write",
    "trace.describe": "trace.clean",
    "trace.folder": "trace.parquet",
    "trace.forecasts": "trace.schedule",
    "trace.implied.holds": "trace.implied.caps",
    "trace.implied.hours": "trace.implied.fit",
    "trace.maps": "trace.source",
    "trace.result": "trace.schedule",
    "trace.slurm_machine": "trace.slurm_record",
    "trace.synth.cluster": "trace.demo",
    "trace.synth.lublin": "trace.synth.models",
    "trace.synth.requests": "trace.synth.models",
    "trace.zone": "trace.select",
    "vasp.kpoints": "vasp.incar",
    "vasp.potcar": "vasp.poscar",
    "vasp.synth": "vasp.features",
}
RENAMED = {
    "grid.workload:draw": "draw_jobs",
    "report.evaluation.waste:COLUMNS": "WASTE_COLUMNS",
    "testing.order:CHECKS": "ORDER_CHECKS",
    "trace.batsim:COLUMNS": "BATSIM_COLUMNS",
}
PACKAGE = __name__.rpartition(".")[0]


class MovedModules:
    """Finds a module by its old name, after everything else has failed to."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        """The old name's module, which passes every question on to the new one."""
        place, _, old = name.partition(".")
        loader: Any = self  # duck-typed: importlib.abc takes a sixth of start-up to load
        return ModuleSpec(name, loader) if place == PACKAGE and old in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """A module that answers with what is at the new place."""
        old = spec.name.partition(".")[2]
        new = import_module(f"{PACKAGE}.{MOVED[old]}")
        warnings.warn(f"{spec.name} is {new.__name__} now", DeprecationWarning, stacklevel=2)

        def named(name: str) -> Any:
            return getattr(new, RENAMED.get(f"{old}:{name}", name))

        module = ModuleType(spec.name, new.__doc__)
        vars(module)["__getattr__"] = named
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing runs: the new module has run."""


def older_names(**renamed: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Arguments of a function by their older names, too: each works for one version, with a warning.

    >>> older_names(runtime="predictor")(lambda predictor: predictor)(predictor="last_2")
    'last_2'
    """

    def around(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            for old, new in renamed.items():
                if old in kwargs:
                    if new in kwargs:
                        raise TypeError(f"{function.__name__}: {old} is {new} now: give one of them")
                    warnings.warn(f"{function.__name__}: {old}= is {new}= now", FutureWarning, stacklevel=2)
                    kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return called

    return around


def install() -> None:
    """Let old names be found in this process; twice is once."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(MovedModules())
