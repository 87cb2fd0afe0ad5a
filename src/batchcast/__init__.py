"""batchcast: how long batch jobs run, how long they wait, and what a scheduler gains by knowing.

The Python API, each loaded when first used: `read_trace`, `Trace` (arrays in: `Trace.from_arrays`; out:
`trace.number("run_time")`), `from_arrow` and `to_arrow` (traces; schedules and forecasts out), `replay` (the recorded
clock), `simulate` and `Policy` (the simulated clock), `evaluate`, `Predictor` and `Prediction`, and
`testing.check_predictor`, `testing.check_order`, ... docs/tutorial.md walks through all of it.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"
_PLACES = {
    "read_trace": "batchcast.trace.read:read_trace",
    "Trace": "batchcast.table:Trace",
    "from_arrow": "batchcast.trace.parquet:from_arrow",
    "to_arrow": "batchcast.trace.parquet:to_arrow",
    "replay": "batchcast.evaluate.replay:replay",
    "simulate": "batchcast.simulate:",
    "Policy": "batchcast.simulate:Policy",
    "evaluate": "batchcast.evaluate:",
    "Predictor": "batchcast.predict.protocol:Predictor",
    "Prediction": "batchcast.predict.protocol:Prediction",
    "demo_path": "batchcast.trace.demo:demo_path",
    "testing": "batchcast.testing:",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'batchcast' has no attribute {name!r}")
    from importlib import import_module

    module, _, attribute = _PLACES[name].partition(":")
    found = import_module(module)
    return getattr(found, attribute) if attribute else found


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES])
