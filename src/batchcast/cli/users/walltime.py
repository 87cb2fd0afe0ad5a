# SPDX-License-Identifier: Apache-2.0
"""`batchcast walltime`: suggests a time limit and, if memory is measured, a memory request, each with a reason."""

from __future__ import annotations

import math
import time
from functools import partial
from typing import Any

import click

from ...errors import NoAnswer, UsageError
from ...units import span
from ..grammar import option, risk_option, verb
from ..output import echo, printed, say
from ..site_options import ask, myself, site_options, site_settings

LEAST_JOBS = 5
RECENT = 10


@verb()
@click.argument("job_or_script", required=False, metavar="[JOBID|SCRIPT]")
@site_options
@option("--name GLOB", "Base the suggestion on your jobs with this name, for example 'relax*'.", "glob")
@option("-u, --user NAME", "User.  [default: you]")
@risk_option("such jobs")
@option("--memory", "Suggest only the memory request.", "memory_alone")
@option("-P, --parsable2", "Print columns separated by |.")
def command(
    job_or_script: str | None, glob: str | None, user: str | None, risk: float, memory_alone: bool, **options: Any
) -> None:
    """Suggest a time limit and memory request for your next job, based on your similar past jobs.

    Similar jobs have the same name and size, else the same name, else the same size. The suggestion follows the site's
    minimum, rounding and maximum. Memory is per node, and at most the memory of one node.
    """
    from ...service.answers import advice, fallback, questions
    from ...service.settings import own_name

    if (job_or_script is None) == (glob is None):
        raise UsageError("give one of JOBID, SCRIPT or --name GLOB")
    asked = (site_settings(options), job_or_script, glob, user or own_name(), myself(), risk, time.time())
    parameters = {**advice.service_parameters(job_or_script, glob), "user": user, "risk": risk}
    here, without_store = partial(questions.walltime, *asked), partial(fallback.walltime, *asked)
    reply = ask(asked[0], "walltime", parameters, here, without_store)
    (answer,) = reply.results
    if printed("walltime", reply, options["as_json"], options["parsable2"]):
        return
    if glob is not None and math.isfinite(answer["asked_limit_s"] or math.nan):
        say(f"for a job like the latest of these jobs, which requested {span(answer['asked_limit_s'])}")
    if not memory_alone:
        echo(f"#SBATCH --time={answer['limit']}")
        echo(f"# {answer['why']}")
    if answer["memory"] is not None:
        echo(f"#SBATCH --mem={answer['memory']}")
        echo(f"# {answer['memory_why']}")
    elif memory_alone:
        raise NoAnswer(f"no --mem: {answer['memory_why']}", hint="batchcast doctor says what measures memory")
    elif answer["memory_jobs"]:  # without measured memory, only doctor and --json mention it
        say(f"no --mem: {answer['memory_why']}")
