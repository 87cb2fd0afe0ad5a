# SPDX-License-Identifier: Apache-2.0
"""Predicts run times, queue waits and memory of batch jobs, and simulates schedules of a log.

Logs: `read_trace` (one file or several), `Trace` (`Trace.from_arrays`, `log.run_time`, `log[0]`, `for job in log`),
`from_arrow`, `to_arrow`, `demo_path`.

Predictions: `replay`, `evaluate_run_times`, `evaluate_waits`, `limits`, `memory_limits`.

Schedules: `simulate`, `Policy`, `Scheduler`, `whatif`, `evaluate` (the whole report, written by `write_report`).

Results of earlier runs: `compare`, `read_report`, `read_sweep`.

Methods of your own: `Predictor`, `Prediction`, `SklearnRuntime`, `testing`.

`print` shows a result as a table, `.summary()` returns its main figures, `.plot()` draws it, `.to_polars()` and
`.to_pandas()` return all columns as a data frame. Each name is imported when it is first used. The tutorial is
docs/start/tutorial.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .version import __version__ as __version__

if TYPE_CHECKING:
    from . import testing as testing
    from .evaluation.evaluation import evaluate as evaluate
    from .evaluation.replay import replay as replay
    from .predict.adapters import SklearnRuntime as SklearnRuntime
    from .predict.protocol import Prediction as Prediction
    from .predict.protocol import Predictor as Predictor
    from .report.evaluation.page import write_report as write_report
    from .results.comparison import compare as compare
    from .results.comparison import read_report as read_report
    from .results.forecasts import evaluate_run_times as evaluate_run_times
    from .results.forecasts import evaluate_waits as evaluate_waits
    from .results.forecasts import limits as limits
    from .results.forecasts import memory_limits as memory_limits
    from .results.whatif import whatif as whatif
    from .simulation.policy import Policy as Policy
    from .simulation.scheduler import Scheduler as Scheduler
    from .simulation.simulate import simulate as simulate
    from .sweep.compare import read_sweep as read_sweep
    from .table import Trace as Trace
    from .table.arrow import from_arrow as from_arrow
    from .table.arrow import to_arrow as to_arrow
    from .trace.read import read_trace as read_trace
    from .trace.source import demo_path as demo_path

_LANGUAGE = {"__annotations__", "__builtins__", "__dir__", "__getattr__"}
_NAMES = {  # public names by module
    "trace.read": "read_trace",
    "table": "Trace",
    "table.arrow": "from_arrow to_arrow",
    "evaluation.replay": "replay",
    "simulation.simulate": "simulate",
    "simulation.policy": "Policy",
    "simulation.scheduler": "Scheduler",
    "evaluation.evaluation": "evaluate",
    "results.forecasts": "evaluate_run_times evaluate_waits limits memory_limits",
    "results.whatif": "whatif",
    "results.comparison": "compare read_report",
    "sweep.compare": "read_sweep",
    "report.evaluation.page": "write_report",
    "predict.protocol": "Predictor Prediction",
    "predict.adapters": "SklearnRuntime",
    "trace.source": "demo_path",
}
_ADDRESSES = {name: f"batchcast.{module}:{name}" for module, names in _NAMES.items() for name in names.split()}
_ADDRESSES["testing"] = "batchcast.testing:"

if not TYPE_CHECKING:  # type checkers read the imports above, and must reject all other names

    def __getattr__(name: str) -> object:
        if name not in _ADDRESSES:
            raise AttributeError(f"module 'batchcast' has no attribute {name!r}")
        from importlib import import_module

        module, _, attribute = _ADDRESSES[name].partition(":")
        imported = import_module(module)
        return getattr(imported, attribute) if attribute else imported

    __all__ = [*_ADDRESSES]  # noqa: PLE0604 - names of `_ADDRESSES`, so that `help` and `dir` list the public calls alone

    def __dir__() -> list[str]:
        return [*__all__, *(name for name in globals() if name.startswith("__") and name not in _LANGUAGE)]
