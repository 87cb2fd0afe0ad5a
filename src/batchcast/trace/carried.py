"""What a format has no place for, said before it is missed."""

from __future__ import annotations

import numpy as np

from ..columns import COLUMNS
from ..table import Trace


def not_carried(trace: Trace, kind: str) -> list[str]:
    """What of this trace a format cannot hold, in sentences; nothing for Parquet.

    >>> not_carried(Trace.from_arrays({"submit_time": [0], "qos": ["high"], "user_id": ["ada"]}), "swf")
    ['SWF has no field for: qos', 'SWF has numbers for names: user_id']
    """
    if kind in ("parquet", "folder"):
        return []
    if kind == "csv":
        info, lost = trace.info, []
        lost += ["the machine's size"] if info.max_procs > 0 or info.max_nodes > 0 else []
        lost += ["the time zone"] if info.timezone != "UTC" else []
        lost += ["the header"] if info.header else []
        lost += [f"the names of {column}" for column in info.names]
        return [f"CSV has no place for: {', '.join(lost)}"] if lost else []
    sentences = []
    lost = [name for name in trace.names if (name not in COLUMNS or not COLUMNS[name].swf) and _is_known(trace, name)]
    if lost:
        sentences.append(f"SWF has no field for: {', '.join(lost)}")
    named = [name for name in trace.names if name not in lost and name != "status" and _has_text(trace, name)]
    if named:
        sentences.append(f"SWF has numbers for names: {', '.join(named)}")
    return sentences


def _is_known(trace: Trace, name: str) -> bool:
    values = trace.column(name)
    if isinstance(values, np.ndarray):
        return values.dtype.kind != "f" or bool((~np.isnan(values)).any())
    return bool(values.is_known().any())


def _has_text(trace: Trace, name: str) -> bool:
    values = trace.column(name)
    if isinstance(values, np.ndarray):
        return values.dtype.kind == "U"
    return any(isinstance(value, str) for value in values.categories)
