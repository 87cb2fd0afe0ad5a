# SPDX-License-Identifier: Apache-2.0
"""`--in-periods OUT` of `runtime`, `wait` and `simulate`: processes a log that is larger than memory, month by
month.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import NoAnswer, UsageError
from .grammar import option, typed_options
from .options import dropped_lines, find_modules_here, opening_of, settings_of
from .output import document, emit, note, progress, say, show_blocks

if TYPE_CHECKING:
    from ..table import Trace
    from ..trace.parquet import LogFolder
    from .schedule_options import Plan


class Pieces:
    """The pieces of a log for `--in-periods` and for `convert` into a folder; can be iterated several times.

    Several logs form one piece, because their jobs must be sorted together first.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = options
        self.opening = opening_of(options)
        self.opening.check_pieces()
        if self.opening.known_at_submit:
            find_modules_here(options)

    def __iter__(self) -> Iterator[Trace]:
        logs = self.options["log"]
        yield from self.opening.pieces(logs[0]) if len(logs) == 1 else [self.opening.open(logs)]


READING = {"log", "since", "until", "status", "partition", "queue", "user", "cluster", "clean", "procs", "procs_total",
           "timezone", "keep_repeats", "known_at_submit", "private", "in_periods", "as_json", "predictor",
           "predictors"}  # fmt: skip
"""Parameters of the options that go with `--in-periods`."""


in_periods_option = option(
    "--in-periods OUT", "Process a LOG folder month by month into OUT.", type=click.Path(path_type=Path)
)


def opened(options: Mapping[str, Any]) -> tuple[Pieces, LogFolder]:
    """Open the log folder for reading by periods; UsageError if LOG is not a folder."""
    from ..trace.parquet import is_folder, open_folder

    logs = options["log"]
    if len(logs) > 1 or not is_folder(logs[0]):
        names = " ".join(map(str, logs))
        what = "several logs" if len(logs) > 1 else f"{names} is not a folder with a log"
        raise UsageError(f"--in-periods: {what}", hint=f"batchcast convert {names} -o FOLDER/")
    return Pieces(options), open_folder(logs[0])


def refuse_others(accepted: Collection[str]) -> None:
    """Raise UsageError, naming the option, for an option on the command line that needs the whole log at once."""
    for name, flag in typed_options(click.get_current_context()).items():
        if name not in READING and name not in accepted:
            raise UsageError(f"--in-periods cannot be combined with {flag}, which needs the whole log at once",
                             hint=f"without {flag}, or without --in-periods")  # fmt: skip


def forecasts(kind: str, specs: Sequence[str], options: Mapping[str, Any], protocol: str | None) -> None:
    """Run `runtime` or `wait` over a log folder, period by period."""
    import numpy as np

    from ..evaluation.replay import forecast_periods
    from ..evaluation.wait import RecordedClock
    from ..metrics.schedule import ForecastTotals
    from ..trace.parquet import answers_folder

    periods, folder = opened(options)
    totals = {spec: ForecastTotals() for spec in specs}
    with (
        progress(f"Forecasting {'run times' if kind == 'runtime' else 'waits'}", len(folder)) as tick,
        answers_folder(options["in_periods"], ("predictor",)) as add,
    ):
        kind_options = {"cancelled": options["cancelled"]} if kind == "wait" else {"seed": options["seed"]}
        for period, first, said in forecast_periods(
            kind, periods, specs, RecordedClock(protocol, periods.opening.rule), tick=tick, **kind_options
        ):
            waits = np.where(period.wait_time >= 0, period.wait_time, np.nan)
            actual = period.run_time if kind == "runtime" else waits
            for spec, answers in said.items():
                bounds = {level: answers.quantiles[:, k] for k, level in enumerate(answers.levels)}
                totals[spec].add(answers.points, actual, bounds)
                columns = {"row": first + np.arange(len(period)), "job_id": period.job_id, "actual": actual}
                add((spec,), {**columns, "point": answers.points,
                                  **{f"q{level:g}": bound for level, bound in bounds.items()}})  # fmt: skip
    rows = [{"predictor": spec, **totals[spec].figures()} for spec in specs]
    _print(kind, periods, folder, rows, {"predictor": list(specs), "protocol": protocol or "own"})


def schedules(plan: Plan, options: Mapping[str, Any]) -> None:
    """Run `simulate` over a log folder, period by period."""
    from collections import Counter
    from dataclasses import replace

    from ..metrics.schedule import ScheduleTotals
    from ..predict.protocol import spec_words
    from ..simulation.periods import simulate_periods
    from ..simulation.workload import left_out_words
    from ..table.trace import summed_notes
    from ..trace.parquet import answers_folder

    periods, folder = opened(options)
    default = plan.setup.default_request or folder.largest_request
    default_request = default if default == default else None
    setup = replace(plan.setup, procs=periods.opening.rule, default_request=default_request)
    rows, left_out, notes = [], Counter[str](), list[str]()
    with answers_folder(options["in_periods"], ("policy", "predictor")) as add:
        for name, policy in plan.policies.items():
            for spec in plan.planners(policy):
                totals, corrections = None, 0
                left_out, notes = Counter(), []
                with progress(f"Simulating {name}, planned with {spec_words(spec)}", len(folder)) as tick:
                    done = 0
                    for part in simulate_periods(periods, policy, spec, setup):
                        totals = totals or ScheduleTotals(part.total)
                        totals.add(part.submit_time, part.start_time, part.run_time, part.procs, part.backfilled)
                        corrections += part.corrections
                        left_out.update(part.left_out)
                        notes = summed_notes([*notes, *part.notes])
                        add((name, spec), part.columns())
                        tick(done := done + len(part))
                if totals is None:
                    raise NoAnswer("no job to simulate", hint="`batchcast info LOG` shows which fields the log has")
                rows.append({"policy": name, "predictor": spec, **totals.figures(), "corrections": corrections})
    predictors = list(dict.fromkeys(row["predictor"] for row in rows))
    chosen: dict[str, Any] = {"policy": list(plan.policies), "predictor": predictors}
    chosen |= {name: getattr(setup, name) for name in ("wide", "default_request", "plan_level")}
    _print("simulate", periods, folder, rows, chosen, [*left_out_words(left_out), *notes])


def _print(
    verb: str,
    periods: Pieces,
    folder: LogFolder,
    rows: Sequence[Mapping[str, Any]],
    chosen: Mapping[str, Any],
    notes: Iterable[str] = (),
) -> None:
    """Print the measures that can be summed over periods; results per job are in OUT."""
    from ..report.tables import totals_table

    out, as_json = str(periods.options["in_periods"]), periods.options["as_json"]
    warnings = [*folder.info.notes, *dropped_lines(folder.info.dropped), *notes]
    if as_json:
        about = {"source": folder.info.source, "jobs": len(folder), "periods": len(folder.parts)}
        return emit(
            document(verb, about, {**settings_of(periods.opening), **chosen, "in_periods": out}, warnings, list(rows))
        )
    note(*warnings)
    show_blocks(totals_table(rows, len(folder), len(folder.parts), folder.info.source))
    say(f"results of each job: {out} (Parquet)")
