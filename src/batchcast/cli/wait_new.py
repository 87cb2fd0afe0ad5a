"""`batchcast wait LOG --new ...`: the wait of one job that is not in the log, by every method."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..units import parse_duration

if TYPE_CHECKING:
    from ..cluster.machine import Machine
    from ..table import Trace

NAMED = {"user": "user_id", "group": "group_id", "queue": "queue_id", "app": "app_id", "partition": "partition_id"}
FORM = "procs=64,request=2h[,at=DATE or the log's seconds][,user=,group=,queue=,app=,partition=]"


@dataclass(frozen=True, slots=True)
class NewJob:
    """What is asked for: processors, limit (s), instant on the log's clock (None: after the last submission), names."""

    procs: float
    request: float
    at: str | None
    names: Mapping[str, str]


def parse_new(text: str) -> NewJob:
    """A job from `key=value,...`; UsageError names the form.

    >>> parse_new("procs=64,request=2h")
    NewJob(procs=64.0, request=7200.0, at=None, names={})
    """
    given = dict(piece.partition("=")[::2] for piece in text.split(","))
    strange = [key for key in given if key not in ("procs", "request", "at", *NAMED)]
    if strange or not {"procs", "request"} <= given.keys():
        wrong = f"no key {strange[0]!r}" if strange else "procs and request are needed"
        raise UsageError(f"--new {text}: {wrong} (accepted: {FORM})")
    try:
        procs = int(given["procs"])
    except ValueError:
        procs = 0
    if procs < 1:
        raise UsageError(f"--new: procs={given['procs']!r} (accepted: a whole number from 1)")
    names = {NAMED[key]: value for key, value in given.items() if key in NAMED}
    return NewJob(float(procs), parse_duration(given["request"]), given.get("at"), names)


def with_new_job(trace: Trace, job: NewJob) -> tuple[Trace, int]:
    """The log as it was known at the job's submission, with the job in it, and the job's row.

    Jobs submitted later are left out; what the others did later no forecast sees, as in any replay. The job itself has
    no start and no end. Raises UsageError for an instant before the log's first job.
    """
    import numpy as np

    from ..table import Nominal, Trace

    at = _instant(trace, job.at)
    known = trace.take(np.flatnonzero(trace.submit_time <= at))
    if not len(known):
        raise UsageError(f"--new: at={job.at} is before the log's first submission")
    new: dict[str, Any] = {"submit_time": at, "req_procs": job.procs, "req_time": job.request}
    columns: dict[str, Any] = {}
    for name in known.names:
        values = known.column(name)
        if isinstance(values, Nominal):
            codes, categories = values.codes, values.categories
            wanted = job.names.get(name)
            place = next((k for k, v in enumerate(categories) if wanted is not None and str(v) == wanted), -1)
            if wanted is not None and place < 0:
                place, categories = len(categories), (*categories, wanted)
            columns[name] = Nominal(np.append(codes, np.int32(place)).astype(np.int32), categories)
        elif name == "job_id":
            columns[name] = np.append(values, "new" if values.dtype.kind in "UO" else values.max() + 1)
        else:
            columns[name] = np.append(values, new.get(name, math.nan))
    columns.setdefault("req_procs", np.append(known.procs(), job.procs))
    columns.setdefault("req_time", np.append(np.full(len(known), math.nan), job.request))
    return Trace(columns, known.info, is_sorted=True), len(known)


def forecasts(
    trace: Trace, job: NewJob, specs: Sequence[str], size: float, cancelled: str, machine: Machine | None = None
) -> list[dict[str, Any]]:
    """One row a method: the wait it foretells and its bound, with the grounds in words."""
    import numpy as np

    from ..evaluation.wait import run_wait

    log, row = with_new_job(trace, job)
    ask = np.arange(len(log)) == row
    rows = []
    for spec in specs:
        run = run_wait(log, spec, ask, total=size, cancelled=cancelled, machine=machine)
        quantiles = run.forecasts.quantiles[row] if len(run.forecasts.levels) else np.array([math.nan])
        rows.append(
            {
                "predictor": spec, "protocol": run.protocol, "submit_s": float(log.submit_time[row]),
                "wait_s": float(run.forecasts.points[row]), "bound_s": float(quantiles[-1]),
                "level": float(run.forecasts.levels[-1]) if len(run.forecasts.levels) else math.nan,
                "basis": run.forecasts.basis[row],
            }
        )  # fmt: skip
    return rows


def _instant(trace: Trace, text: str | None) -> float:
    """Seconds on the log's clock; the last submission where nothing is given."""
    from ..trace.zone import parse_date, zone

    if text is None:
        return float(trace.submit_time[-1])
    try:
        return float(text)
    except ValueError:
        return parse_date(text, zone(trace.info.timezone)) - trace.info.unix_start
