# SPDX-License-Identifier: Apache-2.0
"""Why what a waiting job is told has moved, in a sentence; where jobs are private, without figures of others' jobs."""

from __future__ import annotations

import json
import math
from typing import Any

from ...units import span
from .answer import Sentence

SOONER, LATER = "sooner", "later"
ONE = {
    "early": "a job of %(procs)s processors ended %(time)s early: %(by)s sooner",
    "left": "a job ahead of it left the queue: %(by)s sooner",
    "late": "a job of %(procs)s processors runs %(time)s longer than forecast: %(by)s later",
    "came": "a job of higher priority came: %(by)s later",
}
SOME = {
    "early": "%(jobs)s jobs ended early, the largest with %(procs)s processors by %(time)s: %(by)s sooner",
    "left": "%(jobs)s jobs ahead of it left the queue: %(by)s sooner",
    "late": "%(jobs)s jobs run longer than forecast, the largest with %(procs)s processors by %(time)s: %(by)s later",
    "came": "%(jobs)s jobs of higher priority came: %(by)s later",
}
HIDDEN = {
    "early": "jobs ended early: %(by)s sooner",
    "left": "jobs ahead of it left the queue: %(by)s sooner",
    "late": "jobs run longer than forecast: %(by)s later",
    "came": "jobs of higher priority came: %(by)s later",
}
UNEXPLAINED = {
    SOONER: "%(by)s sooner, and no job that ended or left tells why",
    LATER: "%(by)s later, and no job that came or runs on tells why",
}
NODES = "nodes %(nodes)s are drained or down: %(by)s later"
SENTENCES = (NODES, *(text for table in (ONE, SOME, HIDDEN, UNEXPLAINED) for text in table.values()))


def moved(why: str | None, hidden: bool) -> dict[str, Any]:
    """As fields of an answer: `why_it_moved` in words, by how many seconds, and since when (epoch seconds).

    >>> moved('{"by_s": -2400, "since": 5, "cause": "early", "jobs": 1, "procs": 512, "seconds": 10800}', False)
    {'why_it_moved': 'a job of 512 processors ended 3 h early: 40 min sooner', 'moved_by_s': -2400, 'moved_since_s': 5}
    >>> moved('{"by_s": 1500, "since": 5, "cause": "came", "jobs": 5}', True)["why_it_moved"]
    'jobs of higher priority came: 25 min later'
    """
    if not why:
        return {"why_it_moved": "", "moved_by_s": math.nan, "moved_since_s": math.nan}
    known = json.loads(why)
    cause, by = known["cause"], span(abs(known["by_s"]))
    if not cause:
        said = Sentence(UNEXPLAINED[SOONER if known["by_s"] < 0 else LATER], by=by)
    elif cause == "nodes":
        said = Sentence(NODES, nodes=known["nodes"], by=by)
    elif hidden:
        said = Sentence(HIDDEN[cause], by=by)
    else:
        figures = {"jobs": f"{known['jobs']:,}", "by": by}
        if "procs" in known:
            figures |= {"procs": f"{known['procs']:,g}", "time": span(known["seconds"])}
        said = Sentence((ONE if known["jobs"] == 1 else SOME)[cause], **figures)
    return {"why_it_moved": said, "moved_by_s": known["by_s"], "moved_since_s": known["since"]}
