# SPDX-License-Identifier: Apache-2.0
"""`batchcast walltime`: suggests a time limit and, if memory is measured, a memory request, each with a reason."""

from __future__ import annotations

import math
import time

import click

from ...units import span
from ..grammar import option, risk_option, verb
from ..output import echo, printed, say
from ..site_options import myself, site_options

LEAST_JOBS = 5
RECENT = 10


@verb()
@click.argument("what", required=False, metavar="[JOBID|SCRIPT]")
@site_options
@option("--name GLOB", "Base the suggestion on your jobs with this name, for example 'relax*'.", "glob")
@option("-u, --user NAME", "User.  [default: you]")
@risk_option("such jobs")
@option("--memory", "Suggest only the memory request.", "memory_alone")
@option("-P, --parsable2", "Print columns separated by |.")
def command(
    what: str | None,
    glob: str | None,
    user: str | None,
    risk: float,
    store: str | None,
    scheduler: str | None,
    cluster: str | None,
    memory_alone: bool,
    parsable2: bool,
    as_json: bool,
) -> None:
    """Suggest a time limit and memory request for your next job, based on your similar past jobs.

    Similar jobs have the same name and size, else the same name, else the same size. The suggestion follows the site's
    minimum, rounding and maximum. Memory is per node, and at most the memory of one node.
    """
    from ...errors import NoAnswer, NoStore, UsageError
    from ...service.answers import questions, walltime
    from ...service.answers.fallback import answer_or_ask_service
    from ...service.settings import load, own_name

    if (what is None) == (glob is None):
        raise UsageError("give one of JOBID, SCRIPT or --name GLOB")
    settings = load({"store": store, "scheduler": scheduler, "cluster": cluster})
    asked = (settings, what, glob, user or own_name(), myself(), risk, time.time())
    asked_for = {**walltime.service_parameters(what, glob), "user": user, "risk": risk}
    try:
        reply = answer_or_ask_service(settings, "walltime", asked_for, lambda: questions.walltime(*asked))
    except NoStore as error:
        from ...service.answers import fallback

        reply = fallback.walltime(*asked, error.message)
    (answer,) = reply.results
    if printed("walltime", reply, as_json, parsable2):
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
