# SPDX-License-Identifier: Apache-2.0
"""Options shared by all verbs that read a log, and the function that opens the log from them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..document import document, in_number
from ..errors import NoAnswer, UsageError
from ..formats import READERS
from .completion import clean_rules, column_maps, formats, statuses
from .grammar import adds, option
from .output import emit, note, wants_json

if TYPE_CHECKING:
    import numpy as np

    from ..table import Trace
    from ..trace.read import Opening


class Log(NamedTuple):
    """A log after selection and cleaning, with the applied settings and the notes for the user."""

    trace: Trace
    settings: dict[str, Any]
    warnings: list[str]

    @property
    def procs(self) -> str:
        """The rule for a job's processors: `req` or `alloc`."""
        return str(self.settings["procs"])

    @property
    def learned(self) -> list[str]:
        """The sentences about a machine that was learned from this log."""
        return [line for line in self.warnings if line.startswith("learned: ")]

    def emit(
        self,
        verb: str,
        settings: Mapping[str, Any],
        rows: Sequence[Mapping[str, Any]],
        notes: Iterable[str] = (),
        **about: Any,
    ) -> None:
        """Print the JSON document of a verb; the log's own settings, warnings and description come first."""
        from ..trace.select import describe_log  # needs numpy

        whole = describe_log(self.trace) | about
        emit(document(verb, whole, {**self.settings, **settings}, [*self.warnings, *notes], rows))


log_options = adds(
    click.argument("log", type=click.Path(allow_dash=True), metavar="LOG...", nargs=-1, required=True),
    option("--from DATE", "Keep jobs submitted at or after this date.", "since"),
    option("--to DATE", "Keep jobs submitted before this date.", "until"),
    option("--status WORDS...", "Keep jobs that ended as: completed, failed, ...", shell_complete=statuses),
    option("--partition NAMES...", "Keep jobs of these partitions (`unknown`: without one)."),
    option("--queue NAMES...", "Keep jobs of these queues."),
    option("--user NAMES...", "Keep jobs of these users."),
    option("--cluster NAMES...", "Keep jobs of these clusters."),
    option("--first N", "Keep the first N of the selected jobs.", type=click.IntRange(min=1)),
    option("--clean RULES...", "Remove suspect jobs by rules that `info` lists.", shell_complete=clean_rules),
    option("--timezone ZONE", "Time zone of LOG: Europe/Stockholm, +01:00, ..."),
    option("--procs alloc|req", "Size of a job: allocated or requested processors."),
    option("--procs-total N|peak", "Processors of the machine; peak: the most in use."),
    option("--format FORMAT", "{}.".format(", ".join(READERS)), shell_complete=formats),
    option("--map FILE.toml|NAME", "Column map of a CSV: nrel, graham, or a file.", shell_complete=column_maps),
    option("--strict", "Stop at the first unreadable line."),
    option("--keep-repeats", "Keep repeated records of the same job."),
    option("--private/--named", "Hide or show user names. Default: site's setting.", default=None),
)
"""One LOG or several, and the options that read, clean and select; `take_log` uses their values."""
predictor_options = option("--known-at-submit NAMES...", "Further columns of LOG known at submission.")
"""Columns that predictors may use beyond batchcast's own; `take_log` reads the option."""
score_options = adds(
    option("--score-from DATE", "Score jobs from this date; learn from all jobs."),
    option("--score-to DATE", "Score jobs before this date; learn from all jobs."),
    option("--score-status WORDS...", "Score jobs that ended as: completed, failed, ...", shell_complete=statuses),
)
"""Options that select the jobs to score; `take_score` uses their values."""


replicate_options = adds(
    option(
        "--replicates N [0]", "Also simulate N logs resampled by weeks.", type=click.IntRange(0), show_default=False
    ),
    option("--seed", "Random seed of intervals and replicates.", type=int, default=0),
)
"""Options of the verbs that compare simulated schedules."""


MOST_WORKERS = 8  # login nodes are shared
WORTH_SEVERAL = 10_000  # jobs; for fewer jobs, starting processes takes longer than they save
workers_option = option(
    "--workers N", f"Number of processes. Default: at most {MOST_WORKERS}.", type=click.IntRange(min=1)
)


def workers_for(requested: int | None, jobs: int) -> int:
    """Return the number of worker processes for a log of this many jobs: the requested number, else the default that
    `workers_option` describes.
    """
    if requested is not None or jobs < WORTH_SEVERAL or not hasattr(os, "sched_getaffinity"):
        return requested or 1
    return min(len(os.sched_getaffinity(0)), MOST_WORKERS)


def take_log(options: Mapping[str, Any]) -> Log:
    """Open the log that the options describe (by `trace.read.Opening`).

    Dropped records and notes are printed on stderr, unless the verb prints a JSON document, which contains them.
    """
    from dataclasses import replace

    if "known_at_submit" in options:
        find_modules_here(options)
    opening = opening_of(options)
    trace = opening.open(options["log"])
    private, why = _are_users_private() if options["private"] is None else (bool(options["private"]), [])
    trace = trace.with_info(replace(trace.info, private=private))
    warnings = [in_number(note) for note in (*trace.info.notes, *dropped_lines(trace.info.dropped), *why)]
    if not wants_json():
        note(*warnings)
    info = trace.info
    settings = settings_of(opening) | {"timezone": info.timezone, "timezone_source": info.timezone_source}
    settings |= {"machine_procs": info.max_procs, "machine_procs_source": info.max_procs_source}
    settings |= {"format": info.format, "map": info.header.get("map"), "strict": options["strict"]}
    settings |= {"private": info.private}
    settings |= {"known_at_submit": opening.known_at_submit} if opening.known_at_submit else {}
    return Log(trace, settings, warnings)


def opening_of(options: Mapping[str, Any]) -> Opening:
    """Return how to open a log; UsageError for options that contradict each other."""
    from ..trace.read import Opening
    from ..trace.select import Selection

    names = {key: split_words(options[key]) for key in ("status", "partition", "queue", "user")}
    opening = Opening(
        **{key: options[key] for key in ("format", "strict", "timezone", "map", "procs", "first", "keep_repeats")},
        procs_total=_total(options["procs_total"]),
        cluster=split_words(options["cluster"]),
        clean=split_words(options["clean"]),
        known_at_submit=split_words(options.get("known_at_submit", ())),
        selection=Selection(options["since"], options["until"], **names),
    )
    assert opening.rule
    return opening


def settings_of(opening: Opening) -> dict[str, Any]:
    """Return the settings of a document that describe which jobs of a log were used."""
    chosen = opening.selection
    return {
        "from": chosen.since,
        "to": chosen.until,
        **{key: getattr(chosen, key) or None for key in ("status", "partition", "queue", "user")},
        **{key: getattr(opening, key) for key in ("cluster", "keep_repeats") if getattr(opening, key)},
        "first": opening.first,
        "clean": opening.clean or None,
        "timezone": opening.timezone,
        "procs": opening.rule,
        "format": opening.format,
        "map": opening.map,
    }


_OWN_CODE = re.compile(r"(?:^|[\s,=\"'])(?:forecast:)?+([A-Za-z_]\w*)(?:\.\w+)*:[A-Za-z_]")
"""The module's first name in MODULE:CLASS and MODULE:FUNCTION, also in `easy:order=MODULE:FUNCTION`."""


def find_modules_here(options: Mapping[str, Any]) -> None:
    """Make MODULE:CLASS and MODULE:FUNCTION in option values importable if MODULE is in the working directory."""
    here = os.getcwd()
    names = {name for value in options.values() for name in _OWN_CODE.findall(str(value))}
    # A folder from which the user names no code stays off the module path: it may be anybody's, and Python would search
    # it for each package that is not installed.
    if here not in sys.path and names and names & {entry.partition(".")[0] for entry in os.listdir()}:
        sys.path.append(here)


SCORE_KEYS = ("score_from", "score_to", "score_status")
"""Parameters of the `score_options`."""


def take_score(options: Mapping[str, Any], log: Log) -> np.ndarray:
    """Return which jobs are scored, as booleans (n,), and add the options to the log's settings; NoAnswer if no job is
    scored.
    """
    from ..trace.select import Selection, selection_mask

    since, until, status = (options[key] for key in SCORE_KEYS)
    words = split_words(status)
    log.settings.update(score_from=since, score_to=until, score_status=words or None)
    mask = selection_mask(log.trace, Selection(since, until, words))
    if not mask.any():
        raise NoAnswer("no job is left to score", hint="a wider --score-from, --score-to, --score-status")
    return mask


def take_chosen(options: Mapping[str, Any], log: Log) -> np.ndarray | None:
    """Return the same as `take_score`, or None if the user did not choose which jobs are scored."""
    return take_score(options, log) if any(options[key] for key in SCORE_KEYS) else None


def split_words(values: Sequence[str]) -> list[str]:
    """Split the values of an option that may be repeated and may contain comma-separated words.

    >>> split_words(["completed,failed", "5"])
    ['completed', 'failed', '5']
    """
    return [word.strip() for value in values for word in value.split(",") if word.strip()]


def _total(text: str | None) -> float | str | None:
    """Return the value of `--procs-total`: a number of processors, `peak` or None."""
    if text is None or text == "peak":
        return text
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e12:
        raise UsageError(f"--procs-total: {text!r} is not a number of processors (accepted: a number above 0, or peak)")
    return value


def _are_users_private() -> tuple[bool, list[str]]:
    """Return whether this site hides users, and a note if that is only assumed."""
    from ..store.place import is_site

    if not is_site(os.environ):
        return False, []
    from ..service.settings import are_users_hidden

    hidden, why = are_users_hidden()
    return hidden, [f"user names are hidden: {why} (--named shows them)"] if why else []


def dropped_lines(dropped: Mapping[str, int]) -> list[str]:
    """Describe how many records each rule left out; the reader's notes describe broken lines, with an example each."""
    counts = ((rule, count) for rule, count in dropped.items() if count and not rule.startswith("broken line:"))
    return [f"{count} records left out ({rule})" for rule, count in counts]
