"""Memory for a synthetic log: what applications hold, and what their users ask for out of habit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...columns import OUT_OF_MEMORY
from ...table import Nominal, Trace, Values

CHOICES = 1024.0**2 * np.array([0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0])
"""KiB a processor that people ask for: powers of two, 128 MiB to 8 GiB."""
MARGINS = (0.9, 1.5, 3.0, 6.0)
SMALLEST, LARGEST = 32.0, 3072.0  # MiB a processor
WITHIN = 0.15  # of ln use among jobs of one application


def with_memory(rng: np.random.Generator, trace: Trace) -> Trace:
    """The log with memory asked and used, KiB a processor, and jobs that ran out of what they asked for.

    Assumed, after no published model: an application (of a user and size) holds a median drawn log-uniformly from
    32 MiB to 3 GiB a processor, its jobs differ by a log-normal factor (sigma 0.15); its user has a margin, 0.9, 1.5, 3
    or 6 times, and asks for the next power of two above the median times that. A job that needs more than it asked ends
    as out_of_memory and held what it asked. O(n log n).

    >>> log = Trace.from_arrays({"submit_time": range(400), "run_time": [60] * 400, "req_procs": [1] * 400,
    ...     "user_id": [k % 7 for k in range(400)], "status": ["completed"] * 400})
    >>> made = with_memory(np.random.default_rng(0), log)
    >>> bool((made.number("used_mem_kib") <= made.number("req_mem_kib")).all()), made.info.memory_per
    (True, 'processor')
    """
    user = trace.nominal("user_id").codes
    keys = np.stack([user, trace.nominal("app_id").codes, np.nan_to_num(trace.procs()).astype(np.int64)])
    kind = np.unique(keys, axis=1, return_inverse=True)[1].ravel()
    usual = np.exp(rng.uniform(np.log(SMALLEST), np.log(LARGEST), kind.max(initial=0) + 1))[kind] * 1024.0
    margin = rng.choice(MARGINS, user.max(initial=0) + 2)[user]
    asked = CHOICES[np.minimum(np.searchsorted(CHOICES, usual * margin), len(CHOICES) - 1)]
    needed = usual * rng.lognormal(0.0, WITHIN, len(trace))
    ran = ~np.isnan(trace.run_time)
    short = ran & (needed > asked)
    columns: dict[str, Values] = {
        "req_mem_kib": np.round(asked),
        "used_mem_kib": np.where(ran, np.round(np.minimum(needed, asked)), np.nan),
        "status": _with_word(trace.nominal("status"), short),
    }
    return trace.with_columns(columns, replace(trace.info, memory_per="processor"))


def _with_word(status: Nominal, where: np.ndarray) -> Nominal:
    words = np.array([*status.categories, None], dtype=object)[status.codes]
    words[where] = OUT_OF_MEMORY
    return Nominal.encode(words.tolist())
