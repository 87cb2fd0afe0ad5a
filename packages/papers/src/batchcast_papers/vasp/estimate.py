# SPDX-License-Identifier: Apache-2.0
"""Predicts the run time of jobs that are not submitted yet, from their input files and a history of jobs."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from batchcast.errors import InputError, NoAnswer
from batchcast.evaluation.new_jobs import end_of, forecast_new
from batchcast.evaluation.wait import with_settings
from batchcast.inputs.collect import read_features
from batchcast.inputs.features import FEATURES
from batchcast.inputs.incar import TAG_PREFIX, tag_default
from batchcast.predict.protocol import Grounds, Prediction
from batchcast.predict.recommend import bound_at, rounded_request
from batchcast.table import Nominal, Trace
from batchcast.trace.input_files import READ, STATUS, Folder, readers

from .methods import Encoder

BOUND = 0.9
"""Level of the upper bound; the suggested time limit is this bound, rounded up."""
STEP_S = 300.0
"""The suggested time limit is a multiple of this many seconds."""
NEAREST = 3
COLLECT = "batchcast vasp collect --log sacct.txt --root / -o jobs.parquet, then --history jobs.parquet"


@dataclass(frozen=True, slots=True)
class NearRun:
    """A finished job whose input files are similar to the new job's.

    The fields are the job's id, run time in seconds, processors, working directory (None: unknown or hidden), and the
    features in which it differs from the new job, each as (past value, new value).
    """

    job: str
    run_s: float
    procs: float
    directory: str | None
    differs: Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True, slots=True)
class Estimate:
    """The predicted run time (s) of one directory's job, or the problem that prevented the prediction.

    `run_s` is the likely run time, `bound_s` the 90 % bound (NaN: the predictor has no bound yet), `limit_s` the
    suggested time limit. `is_fallback` is true if the prediction does not use the features.
    """

    directory: str
    run_s: float = math.nan
    bound_s: float = math.nan
    limit_s: float = math.nan
    basis: str = ""
    is_fallback: bool = False
    nearest: Sequence[NearRun] = ()
    notes: Sequence[str] = ()
    problem: str = ""


def estimate(
    history: Trace,
    directories: Sequence[str | Path],
    *,
    procs: float,
    nodes: float | None = None,
    columns: Mapping[str, Any] | None = None,
    predictor: str = "boosted",
) -> list[Estimate]:
    """Predict the run time of the jobs in some directories from a history of jobs with features of their input files.

    VASP, Quantum ESPRESSO and every application with an installed reader of input files can be mixed. A directory that
    cannot be read has an estimate with a `problem` and no run time.
    """
    # The predictor replays the history, so its bound comes from its errors on jobs on which it had not been trained. A
    # predictor that uses features is trained again on all finished jobs before the prediction. The computing time
    # depends on the predictor; `boosted` takes seconds for 10,000 jobs.
    estimates: dict[str, Estimate] = {}
    jobs: dict[str, dict[str, dict[str, Any]]] = {}
    asked = {"req_procs": procs, **({} if nodes is None else {"req_nodes": nodes}), **(columns or {})}
    for directory in map(str, directories):
        try:
            code, values, notes = _inputs_of(directory, history)
        except InputError as error:
            estimates[directory] = Estimate(directory, problem=error.message)
            continue
        estimates[directory] = Estimate(directory, notes=notes)
        jobs.setdefault(code, {})[directory] = {**asked, STATUS: READ, "work_dir": directory, **values}
    for code, of_code in jobs.items():
        names = FEATURES if code == VASP else tuple(readers()[code].columns)
        learnt = jobs_with_features(history, names)
        settings = {} if code == VASP else {"features": "+".join(("core_num", *names))}
        spec = with_settings(predictor, "runtime", **settings, train_when_asked="yes")
        (said,) = forecast_new(history, spec, list(of_code.values()), end_of(history)).values()
        for k, (directory, job) in enumerate(of_code.items()):
            forecast = Prediction(float(said.points[k]), said.levels, tuple(said.quantiles[k].tolist()))
            bound = bound_at(forecast, BOUND) if forecast.levels and forecast.levels[-1] >= BOUND else math.nan
            limit = rounded_request(bound, STEP_S, STEP_S) if bound == bound else math.nan
            near = nearest_runs(learnt, job, names)
            is_fallback = bool(said.grounds) and said.grounds[k] != Grounds.MODEL
            estimates[directory] = replace(
                estimates[directory], run_s=forecast.point, bound_s=bound, limit_s=limit, basis=said.basis[k],
                is_fallback=is_fallback, nearest=near,
            )  # fmt: skip
    return [estimates[str(directory)] for directory in directories]


VASP = "vasp"


def _inputs_of(directory: str, history: Trace) -> tuple[str, Mapping[str, Any], Sequence[str]]:
    """Return the reader's name, the features and the remarks of a directory; the default reader is VASP's.

    INCAR tags that are columns of the history are also read.
    """
    folder, found = Folder(directory), readers() if os.path.isdir(directory) else {}
    code = next((name for name, one in found.items() if one.is_here(folder)), VASP)
    if code != VASP:
        return code, found[code].read(folder), ()
    of_tags = [name for name in history.names if name.startswith(TAG_PREFIX)]
    read = read_features(directory, tags=[name.removeprefix(TAG_PREFIX).upper() for name in of_tags])
    return code, {**{name: tag_default(name) for name in of_tags}, **read.values}, read.notes


def jobs_with_features(history: Trace, names: Sequence[str] = FEATURES) -> Trace:
    """Return the finished jobs that have all given features; NoAnswer if there are none."""
    source = history.info.source
    if not len(history):
        raise NoAnswer(f"{source} has no job", hint=COLLECT)
    if missing := [name for name in names if name not in history.names]:
        few = ", ".join(missing[:4])
        raise NoAnswer(f"{source} has no features of input files (no column {few})", hint=COLLECT)
    known = history.run_time > 0
    for name in names:
        column = history.column(name)
        known &= column.is_known() if isinstance(column, Nominal) else ~np.isnan(column)
    if not known.any():
        raise NoAnswer(f"{source}: none of its {len(history):,} jobs has both a run time and features", hint=COLLECT)
    return history.take(known)


def nearest_runs(log: Trace, job: Mapping[str, Any], features: Sequence[str], most: int = NEAREST) -> list[NearRun]:
    """Return the jobs of a log with features whose processors and features are nearest to those of a new job, nearest
    first.

    The distance is Euclidean, over continuous features scaled to [0, 1] and discrete features one-hot, in the encoding
    of `irpa`. At equal distance, later runs come first.
    """
    columns = [log.procs(), *(log.column(name) for name in features)]
    past = list(zip(*(each.decode() if isinstance(each, Nominal) else each.tolist() for each in columns)))
    new = (float(job["req_procs"]), *(job[name] for name in features))
    compared = ("core_num", *features)
    points = Encoder.fit(compared, [*past, new]).one_hot([*past, new])
    distance = np.sqrt(((points[:-1] - points[-1]) ** 2).sum(axis=1))
    is_hidden = "work_dir" not in log.names or log.info.private
    places = [None] * len(log) if is_hidden else log.nominal("work_dir").decode()
    found = []
    for k in np.lexsort((-np.arange(len(log)), distance))[:most].tolist():
        differs = {n: (a, b) for n, a, b in zip(compared, past[k], new) if a != b}
        place = None if places[k] is None else str(places[k])
        found.append(NearRun(str(log.job_id[k]), float(log.run_time[k]), float(past[k][0]), place, differs))
    return found
