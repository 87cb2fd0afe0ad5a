"""A synthetic log larger than memory: blocks one behind the other, each a log of the model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ...table import Trace
from .log import Recipe, make_log

BLOCK = 1_000_000
DAY = 86400.0


def make_blocks(seed: int, recipe: Recipe, block: int = BLOCK) -> Iterator[Trace]:
    """The log of a recipe in blocks of `block` jobs, each begun on the day after the last one's end, one at a time.

    Users are the same people in all blocks, applications are numbered anew. Each block has the recipe's load and draws
    of its own from the seed; waits are those of a machine that is empty when a block begins. A recipe of one block is
    `make_log`'s log.

    >>> blocks = list(make_blocks(1, Recipe(jobs=500, procs=64), 200))
    >>> [len(each) for each in blocks], [int(each.job_id[0]) for each in blocks]
    ([200, 200, 100], [1, 201, 401])
    >>> all(a.submit_time[-1] < b.submit_time[0] for a, b in zip(blocks, blocks[1:]))
    True
    """
    if recipe.jobs <= block:
        yield make_log(np.random.default_rng(seed), recipe)
        return
    done, since = 0, 0.0
    while done < recipe.jobs:
        jobs = min(block, recipe.jobs - done)
        jobs += recipe.jobs - done - jobs == 1  # one job alone is no log
        log = make_log(np.random.default_rng([seed, done]), replace(recipe, jobs=jobs, users=recipe.people))
        columns = {name: log.column(name) for name in log.names}
        columns |= {"job_id": log.job_id + done, "submit_time": log.submit_time + since}
        yield Trace(columns, log.info, is_sorted=True)
        done += jobs
        since += (math.floor(float(log.submit_time[-1]) / DAY) + 1) * DAY
