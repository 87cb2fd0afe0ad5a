"""What a job's submission says of it, as planning must know it: submit line and script as text. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from ..errors import UsageError
from ..units import parse_duration
from .plannable import Plannable
from .sbatch import parse_script

_SIGNAL = re.compile(r"--si(g|gn|gna|gnal)?(?![a-z])")
_DIRECTIVE = re.compile(r"^\s*#\s*SBATCH\b")


class Submitted(NamedTuple):
    """Why a submission does not rule out a --signal, empty where it does; the --time it names (s; NaN: none)."""

    signal: str
    limit: float = math.nan


def submitted(submit_line: str, script: str) -> Submitted:
    """What planning asks of a submission. A --time of the line comes before one of the script, as sbatch has it.

    >>> submitted("sbatch -t 10 job.sh", "#!/bin/sh\\n#SBATCH -t 20\\n"), submitted("sbatch job.sh", "#!/bin/sh\\n")
    (Submitted(signal='', limit=600.0), Submitted(signal='', limit=nan))
    """
    named = (parse_script(text).get("time", "") for text in (f"#SBATCH {submit_line}", script))
    try:
        limit = parse_duration(next(filter(None, named), ""))
    except UsageError:
        limit = math.nan
    return Submitted(asks_for_signal(submit_line, script), limit)


def asks_for_signal(submit_line: str, script: str) -> str:
    """Why a job's submission does not rule out a signal before its end; empty where it does.

    A limit that is shorter for a while would send such a signal early. sbatch takes any unambiguous beginning of
    --signal; in doubt there is one. What SBATCH_SIGNAL in the submitter's environment asks for is seen nowhere.

    >>> asks_for_signal("sbatch -t 10 job.sh", "#!/bin/sh\\n#SBATCH --sig=USR1\\n")
    'its script asks for a --signal'
    >>> asks_for_signal("sbatch -t 10 job.sh", "#!/bin/sh\\necho --signal\\n"), asks_for_signal("", "#!/bin/sh")
    ('', 'its submit line is not known')
    """
    words = submit_line.split()
    if not any(word.rpartition("/")[2] == "sbatch" for word in words[:4]):
        return "its submit line is not known"
    if _SIGNAL.search(submit_line):
        return "its submit line asks for a --signal"
    if not script.startswith("#!"):
        return "its script is not known"
    directives = (line for line in script.splitlines() if _DIRECTIVE.match(line))
    return "its script asks for a --signal" if any(_SIGNAL.search(line) for line in directives) else ""


def why_not(asked: Submitted, job: Plannable, defaults: Mapping[str, float]) -> str:
    """Why a submission rules out planning its job, which stands at a limit that is taken for its user's; else empty.

    A limit below the one that was asked for was lowered by somebody. Were that another program that plans, planning
    from there on would go below what OverTimeLimit covers. Where no --time was named the `defaults` by partition count:
    what a site's job_submit.lua or SBATCH_TIMELIMIT made of it is seen nowhere.

    >>> job = Plannable("7", "7", 0.0, begun=False, waits=True, limit=3600.0, partitions=("main",))
    >>> why_not(Submitted("", 3600.0), job, {}), why_not(Submitted("", 3570.0), job, {})
    ('', '')
    >>> why_not(Submitted("", 7200.0), job, {})
    'its limit is below what it was submitted with'
    >>> why_not(Submitted(""), job, {"main": 7200.0})
    "it named no --time, and its limit is below its partition's default"
    """
    if asked.signal:
        return asked.signal
    if not math.isnan(asked.limit):
        return "its limit is below what it was submitted with" if job.limit < asked.limit else ""
    default = min((defaults.get(name, 0.0) for name in job.partitions), default=0.0)
    return "it named no --time, and its limit is below its partition's default" if job.limit < default else ""
