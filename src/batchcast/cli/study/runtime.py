# SPDX-License-Identifier: Apache-2.0
"""`batchcast runtime`: predict run times on the recorded clock and score them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..completion import specs
from ..grammar import TABLES_OR_JSON, option, table_options, verb
from ..options import log_options, predictor_options, score_options, take_log, take_score
from ..output import log_as_typed, progress, say, show_new_job, show_tables
from ..periods import forecasts as forecasts_in_periods
from ..periods import in_periods_option, refuse_others


@verb("runtime", json=TABLES_OR_JSON)
@log_options
@predictor_options
@score_options
@option(
    "--predictor NAMES",
    "Methods, NAME:key=value,..., or `all`. Default: requested,kernel,last_2,recent_mean; with --memory also"
    " largest_recent.",
    "predictors",
    shell_complete=specs("runtime"),
)
@option(
    "--new JOB", "Predict one job that is not in LOG: procs=64[,request=2h,at=DATE,user=NAME,name=NAME,COLUMN=VALUE]."
)
@option(
    "--protocol honest|paper|both [honest]",
    "honest: a prediction uses only jobs that have ended by then; paper: all earlier jobs.",
)
@option("--by user|queue|size|month", "Also print results by group.")
@option(
    "--memory", "Predict peak memory per node (per processor, if LOG has no nodes) instead of run time.", "of_memory"
)
@option("--against NAME", "Reference method for differences. Default: recent_mean, else requested.")
@option("--seed", "Random seed of methods and intervals.", type=int, default=0)
@option("--trace-parameters FILE", "Write the parameters that each training found, as CSV.")
@in_periods_option
@table_options
def command(new: str | None, protocol: str, by: str | None, of_memory: bool, seed: int, **options: Any) -> None:
    """Predict the run time (or peak memory) of every job of LOG at its submission, and score the predictions.

    LOG is SWF, a `sacct -P` dump, a PBS accounting log, CSV or Parquet: plain, .gz, .xz, or - for stdin. A prediction
    uses only jobs that have ended by then. Jobs that never ran are counted and not scored. With --memory, jobs without
    a measured peak and jobs that ran out of memory are not scored either. With --new, nothing is scored: the answer is
    the run time of one job that is not in LOG, learned from all of LOG.
    """
    from ...errors import NoAnswer, UsageError
    from ...evaluation.accuracy import figures, measures_of, score
    from ...events.setup import RunSetup
    from ...predict.registry import split_specs
    from ...report.accuracy import accuracy_table, planned_table
    from ...report.blocks import Block, columns_of
    from ...report.difference import difference_blocks, with_difference

    target = "memory" if of_memory else "run_time"
    usual = "requested,kernel,last_2,recent_mean"
    specs = split_specs(options["predictors"] or (f"{usual},largest_recent" if of_memory else usual))
    if options["in_periods"] is not None:
        refuse_others({"protocol", "seed"})
        if protocol == "both":
            raise UsageError("--in-periods reads the log only once", hint="--protocol honest, or --protocol paper")
        return forecasts_in_periods("runtime", specs, {**options, "seed": seed}, protocol)
    if new is not None:
        if of_memory:
            raise UsageError("--new predicts a run time, not memory", hint="leave out --memory")
        return _answer_new(new, specs, seed, options)
    log = take_log(options)
    mask = take_score(options, log)
    against = options["against"]
    settings = {**log.settings, "predictor": specs, "protocol": protocol, "by": by, "against": against, "seed": seed}
    settings |= {"target": target} if of_memory else {}
    results, refits = list[dict[str, Any]](), list[dict[str, Any]]()
    tables, explained = list[Block](), list[Block]()
    scoring: dict[str, Any] = {"mask": mask, "seed": seed, "target": target}
    for each in ("honest", "paper") if protocol == "both" else (protocol,):
        with progress(f"Predicting run times ({each} protocol)", len(log.trace)) as tick:
            scores = score(log.trace, specs, RunSetup(log.procs, each), tick=tick, **scoring).held_against(against)
        never_ran = scores.never_ran
        refits += [
            {"predictor": spec, "protocol": each, **row} for spec, of in scores.rows.items() for row in of.trained
        ]
        named = {"protocol": each} if protocol == "both" else {}
        overall, grouped = figures(scores), figures(scores, by) if by else []
        if not any(row["jobs"] for row in overall):
            why = f"no job to score: {never_ran} of the selection {_unscored(of_memory)}"
            raise NoAnswer(why, hint="`batchcast info LOG` shows how jobs ended")
        results += [row.named(**named) for row in overall + grouped]
        measures = measures_of(scores.per)
        tables.append(with_difference(accuracy_table(overall, each, settings, per=scores.per), overall, measures))
        explained += difference_blocks(overall, measures, columns_of("predictor"))
        explained += planned_table(scores.rows)
        if grouped:
            tables.append(accuracy_table(grouped, each, settings, by=by, per=scores.per))
    if (file := options["trace_parameters"]) is not None:
        from ...report.tables import write_parameters

        write_parameters(file, refits)
        say(f"parameters of {len(refits)} refits: {file}")
    noun, are = ("job", "is") if never_ran == 1 else ("jobs", "are")
    notes = [f"{never_ran:,} {noun} {_unscored(of_memory)} and {are} not scored"] if never_ran else []
    if options["as_json"]:
        return log.emit("runtime", settings, results, notes, never_ran=never_ran)
    headline, next_step = _best(overall, of_memory)
    tables += [f"{note}." for note in notes]
    show_tables(tables, options["details"], explained, headline=headline, next_step=next_step)


def _best(rows: Sequence[Mapping[str, Any]], of_memory: bool) -> tuple[str, str]:
    """Return the sentence that names the method of the smallest mean error, and the command that uses this method."""
    from ...predict.protocol import FOR_PEOPLE
    from ...report.accuracy import method_words
    from ...report.blocks import Kind, as_text

    kind: Kind = "memory" if of_memory else "seconds"
    key = "mae_mib" if of_memory else "mae_s"
    rivals = [row for row in rows if row["predictor"] not in FOR_PEOPLE and row[key] == row[key]]
    if not rivals:
        return "", ""
    best = min(rivals, key=lambda row: row[key])
    limits = next((row for row in rows if row["predictor"] == "requested" and row[key] == row[key]), None)
    users = "users' requests" if of_memory else FOR_PEOPLE["requested"]
    control = f" ({users}: {as_text(limits[key], kind)})" if limits else ""
    name, words = best["predictor"], method_words(best["predictor"])
    who = words if words == name else f"The {words}"
    headline = f"{who} has the smallest mean error: {as_text(best[key], kind)}{control}."
    if of_memory:
        return headline, f"batchcast limits {log_as_typed()} --memory  (suggests memory requests)"
    return headline, f"batchcast simulate {log_as_typed()} --predictor {name}  (plans with this predictor)"


BOUND = 0.9
"""Level of the upper bound printed for a new job."""


def _answer_new(new: str, specs: list[str], seed: int, options: dict[str, Any]) -> None:
    """Print every predictor's run time of one new job, learned from the whole log up to its submission."""
    from ...evaluation.new_jobs import end_of, forecast_new, instant, parse_new
    from ...predict.protocol import Prediction
    from ...predict.recommend import bound_at

    job = parse_new(new, ("procs",))
    log = take_log(options)
    at = instant(log.trace, job.at)
    at = end_of(log.trace) if at is None else at
    asked = {"req_procs": job.procs, "req_time": job.request, **job.columns}
    said = forecast_new(log.trace, specs, [asked], at, procs=log.procs, seed=seed)
    rows: list[dict[str, Any]] = []
    for spec, one in said.items():
        forecast = Prediction(float(one.points[0]), one.levels, tuple(one.quantiles[0].tolist()))
        has_bound = bool(one.levels) and one.levels[-1] >= BOUND
        bound, level = (bound_at(forecast, BOUND), BOUND) if has_bound else (math.nan, math.nan)
        rows.append({"predictor": spec, "submit_s": at, "run_s": forecast.point, "bound_s": bound, "level": level,
                     "basis": one.basis[0] if one.basis else ""})  # fmt: skip
    settings = {"predictor": specs, "new": new, "seed": seed}
    show_new_job("runtime", log, job, settings, ("run_s", "run time"), rows, options["as_json"])


def _unscored(of_memory: bool) -> str:
    """Return why some jobs are not scored."""
    return "never ran, have no measured peak or ran out of memory" if of_memory else "never ran"
