"""`replay`: predictors, by name or of one's own, driven through a log on the recorded clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..events.recorded import Forecasts
from ..predict import batched
from ..predict.gate import check_predictor
from ..predict.registry import split_specs
from ..table import Trace
from .accuracy import predictor
from .arguments import check_log, jobs_mask


def replay(
    trace: Trace,
    predictors: str | Sequence[str] | Mapping[str, Any],
    *,
    protocol: str = "honest",
    procs: str = "req",
    total: float | None = None,
    seed: int = 0,
    known_at_submit: Sequence[str] = (),
    ask: np.ndarray | None = None,
    tick: Any = None,
) -> dict[str, Forecasts]:
    """What each predictor says of every job at its submission, knowing only what had ended by then.

    Parameters
    ----------
    trace
        The log.
    predictors
        Names with parameters (`last_2:need=2`), or objects with `predict` and `observe` by name.
    protocol
        `honest`, or `paper`: a job's end is told right after its submission.
    procs
        A job's processors: `req` (requested, else allocated) or `alloc`.
    total
        The machine's processors, by default the log's.
    seed
        For methods that draw.
    known_at_submit
        Columns of the log beyond batchcast's own that a predictor may use (`Trace.knowing`).
    ask
        Where to ask, (n,) booleans, by default everywhere; predictors learn from all.
    tick
        Called with the number of jobs done.

    Returns
    -------
    dict of str to Forecasts
        By the predictors' names: points, quantiles, bases in log order.

    Raises
    ------
    UsageError
        For an unknown method, parameter, column or protocol.

    Notes
    -----
    One pass over the events, about 3 microseconds a job and the predictors' own; a method with `predict_trace` is asked
    afresh, in batches.

    Examples
    --------
    >>> log = Trace.from_arrays({"submit_time": [0, 50], "wait_time": [0, 0], "run_time": [9, 9], "req_time": [60, 60],
    ...                          "user_id": ["ada", "ada"]})
    >>> {name: said.points.tolist() for name, said in replay(log, ["requested", "last_2"]).items()}
    {'requested': [60.0, 60.0], 'last_2': [60.0, 9.0]}
    """
    check_log(trace)
    ask = None if ask is None else jobs_mask("ask", ask, trace)
    trace = trace.knowing(known_at_submit)
    size = trace.info.max_procs if total is None else total
    predictors = split_specs(predictors) if isinstance(predictors, str) else predictors
    if isinstance(predictors, Mapping):
        objects = dict(predictors)
        for name, method in objects.items():
            check_predictor(method, trace.info.known_at_submit, name)
    else:
        objects = {spec: predictor(spec, trace, size, seed) for spec in predictors}
    return batched.replay(trace, objects, protocol=protocol, procs=procs, total=size, ask=ask, tick=tick)
