"""What no job can have, read as unknown: a negative or endless length, count or size. One rule for every way in."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..columns import COLUMNS
from .info import LogInfo
from .nominal import Nominal, Values
from .plain import INSTANTS

NO_SUBMIT = "no submit_time"


def sound(columns: Mapping[str, Values], info: LogInfo) -> tuple[dict[str, Values], LogInfo]:
    """The columns with impossible numbers unknown, without rows that have no submit time, and what was done, noted.

    Of our own columns of numbers, negative values and infinite ones (a limit that is none) become NaN, and are noted
    but for -1, which is how many logs write unknown. Instants may be negative, they are on the log's own clock, and so
    may a wait (a start recorded before its submission), which the recorded clock counts. Rows whose submit time is
    unknown or infinite are left out and counted in `info.dropped`. Columns without such values are handed on as are.
    O(values).

    >>> columns, info = sound({"submit_time": np.zeros(3), "run_time": np.array([-1.0, 5.0, -3.0])}, LogInfo())
    >>> columns["run_time"].tolist(), info.notes
    ([nan, 5.0, nan], ('1 values of run_time: negative, read as unknown (first: -3)',))
    """
    kept = dict(columns)
    for name, values in columns.items():
        known = COLUMNS.get(name)
        if known is None or known.kind != "number" or name in INSTANTS or isinstance(values, Nominal):
            continue
        negative = (values < 0) & ((name != "wait_time") | np.isinf(values))
        for what, bad in (("negative", negative), ("endless", values == np.inf)):
            strange = bad & (values != -1)
            if strange.any():
                first = f"{values[int(np.argmax(strange))]:g}"
                info = info.with_note(
                    f"{int(strange.sum())} values of {name}: {what}, read as unknown (first: {first})"
                )
            if bad.any():
                kept[name] = values = np.where(bad, np.nan, values)
    submit = kept.get("submit_time")
    if isinstance(submit, np.ndarray) and not np.isfinite(submit).all():
        rows = np.flatnonzero(np.isfinite(submit))
        info = info.with_dropped(NO_SUBMIT, len(submit) - len(rows))
        kept = {n: v.take(rows) if isinstance(v, Nominal) else v[rows] for n, v in kept.items()}
    return kept, info
