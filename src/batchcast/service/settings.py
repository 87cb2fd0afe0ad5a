# SPDX-License-Identifier: Apache-2.0
"""Reads the settings of the service from their sources: defaults, /etc, the user's file, the environment, flags.

msgspec checks the types. A wrong value or an unknown name is an error that names its source and the accepted values. A
wrong value is never replaced by a default, so a mistyped word cannot open a private site. The module also derives from
settings how long history is kept, and whether results may name users.
"""

from __future__ import annotations

import math
import os
import pwd
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from ..errors import BatchcastError, InputError, UsageError
from ..planning.record import OrderBy
from ..store.place import default_store as default_store
from ..store.place import is_site, settings_files, shown_url
from ..units import MEMORY_FORMS, SPAN_FORMS, parse_duration, parse_memory, parse_span

if TYPE_CHECKING:
    from ..machines.machine import Machine

YES, NO = ("yes", "true", "on", "1"), ("no", "false", "off", "0")


Setting = tuple[str, Any, Any]
"""A setting: its name, its type with meaning and bounds, and its default."""
_Annotated: Any = Annotated  # mypy accepts only constant types
_Literal: Any = Literal


def _setting(name: str, kind: Any, default: Any, meaning: str, accepted: str, unit: str = "", **bounds: Any) -> Setting:
    """Return a setting. Messages list what it accepts, and `unit` says how its text is converted."""
    meta = Meta(description=meaning, extra={"accepted": accepted, "unit": unit}, **bounds)
    return name, _Annotated[kind, meta], default


def _words(name: str, default: str, meaning: str, accepted: str = "text") -> Setting:
    """Return a setting that accepts text."""
    return _setting(name, str, default, meaning, accepted)


def _one_of(name: str, words: str, meaning: str, shown: str = "") -> Setting:
    """Return a setting that accepts some words, of which the first is the default."""
    accepted = words.split(",")
    return _setting(name, _Literal[tuple(accepted)], accepted[0], meaning, shown or ", ".join(accepted))


def _seconds(name: str, default: float, meaning: str, least: float = 0.0) -> Setting:
    """Return a setting that accepts a time of at least `least` seconds."""
    return _setting(name, float, default, meaning, f"seconds, {SPAN_FORMS}", "s", ge=least)


def _limit(name: str, default: float, meaning: str) -> Setting:
    """Return a setting that accepts a time limit as Slurm writes it."""
    return _setting(name, float, default, meaning, "a time limit as Slurm takes it", "limit", gt=0)


def _memory(name: str, meaning: str) -> Setting:
    """Return a setting that accepts an amount of memory; its default is 100 MiB."""
    return _setting(name, float, 100.0 * 1024, meaning, MEMORY_FORMS, "memory", gt=0)


def _count(name: str, default: float, meaning: str, least: float) -> Setting:
    """Return a setting that accepts a number of at least `least`."""
    return _setting(name, type(default), default, meaning, f"a number from {least:g} on", ge=least)


_SETTINGS = (
    _words("store", "", "Job history and predictions: the path of an SQLite file, or postgresql://user@host/name."),
    _one_of("scheduler", "slurm,pbs", "The batch system."),
    _words("cluster", "", "Name of the cluster. Empty: the name that the batch system reports."),
    _words("runtime", "kernel,recent_mean,last_2,calibrated", "Run-time predictors, NAME:key=value,..."),
    _words(
        "memory",
        "kernel,largest_recent",
        "Run-time methods that predict peak memory. Users see the first. Empty: no memory predictions.",
    ),
    _words(
        "limits",
        "calibrated,largest_recent",
        "Run-time methods that suggest time limits. Users see the first. Empty: use similar finished jobs only.",
    ),
    _words(
        "wait",
        "forecast,recent_wait",
        "Wait predictors, NAME:key=value,... The first answers users while its 90 % bound is valid, else the best.",
    ),
    _words(
        "machine",
        "",
        "Machine on whose nodes `forecast` simulates Slurm. Empty: the collector captures the machine from Slurm."
        " A file: written by `batchcast machine capture -o FILE`. none: simulate a pool of processors only.",
    ),
    _words(
        "input_roots",
        "",
        "Directories below which the collector reads the input files of new jobs (VASP, Quantum ESPRESSO),"
        " separated by commas. Empty: it reads none.",
        "absolute directories",
    ),
    _seconds("input_s", 2.0, "Longest time to read the input files of a job. A slower directory is skipped.", 0.1),
    _seconds("interval_s", 30.0, "Time between two queries of the queue (one collector cycle).", 0.1),
    _seconds("floor_s", 1.0, "Minimum time between two calls to the same daemon."),
    _seconds("timeout_s", 30.0, "A call that takes longer counts as failed.", 0.1),
    _seconds("back_off_s", 15.0, "Pause after a failed call. The pause doubles with each further failure."),
    _seconds("longest_back_off_s", 600.0, "Maximum pause after failed calls."),
    _seconds("settle_s", 2.0, "The live clock stays this far behind each query, so that no event arrives late."),
    _count("history_days", 30.0, "Days of history that the first start reads from accounting.", 0),
    _count("memory_days", 90.0, "Days of history that predictors learn from at each start.", 0.01),
    _count("retention_days", 0.0, "Finished jobs are deleted after this many days. 0: never.", 0),
    _seconds("window_s", 86400.0, "Length of the time window of one query to accounting.", 1.0),
    _seconds("overlap_s", 3600.0, "Overlap of two consecutive windows."),
    _seconds("history_every_s", 300.0, "Time between queries to accounting when no job record is missing."),
    _seconds("patience_s", 300.0, "How long the live clock waits for a job that neither queue nor accounting shows."),
    _limit("limit_floor", 300.0, "Shortest time limit that `walltime` suggests."),
    _limit("limit_step", 300.0, "Suggested time limits are rounded up to a multiple of this."),
    _limit("limit_most", math.inf, "Longest time limit that `walltime` suggests. unlimited: the partition's maximum."),
    _memory("memory_floor", "Smallest memory request that `walltime` suggests."),
    _memory("memory_step", "Suggested memory requests are rounded up to a multiple of this."),
    _words("listen", "/run/batchcast/api.sock", "Address of `serve`: the path of a unix socket, or 127.0.0.1:PORT."),
    _words("proxy_from", "", "Proxy that may name the user of a request: a unix user or an IP address. Empty: none."),
    _words("proxy_header", "", "HTTP header in which the proxy names the user. Empty: none."),
    _words("submit_from", "slurm", "Unix user of slurmctld. Its job_submit.lua may query hints for every user."),
    _one_of("log_format", "text,json", "Format of the log lines of `collect` and `serve`. json: one object per line."),
    _count("least_users", 5, "If jobs are private, statistics cover at least this many users.", 1),
    _one_of(
        "plan",
        "off,advise,plan,time-min,order,limits,both",
        "What batchcast changes in Slurm. off: nothing. advise: writes a predicted start into the job's comment."
        " limits: sets time limits of waiting jobs from run-time predictions. order: sets priorities (SiteFactor),"
        " least predicted work first. both: limits and order. time-min: sets Slurm's --time-min.",
        "off, advise, limits, order, both, time-min",
    ),
    _words("plan_partitions", "", "Partitions whose jobs are planned, separated by commas."),
    _words("plan_qos", "", "QOS whose jobs are planned, separated by commas."),
    _setting(
        "plan_order_by",
        OrderBy,
        OrderBy.FORECAST,
        "order: what counts as a job's run time. forecast: the 90 % quantile of the predicted run time, at most"
        " the time limit. limits: the user's time limit, without predictions.",
        "forecast, limits",
    ),
    _setting(
        "plan_length_quantile",
        float,
        0.8,
        "limits: quantile of the predicted run time that becomes the planned time limit.",
        "0 to 1",
        gt=0,
        lt=1,
    ),
    _seconds("plan_shortest_s", 30.0, "Jobs with a shorter median prediction are not planned. 0: plan all."),
    _words("plan_list", "", "File in which batchcast-start (PrologSlurmctld) finds the planned jobs. Empty: none."),
    _setting("plan_percent", float, 100.0, "Share of the jobs that are planned, in percent.", "0 to 100", ge=0, le=100),
    _count("plan_seed", 0, "Random seed that selects the planned jobs.", 0),
    _one_of("plan_within", "queue,account,user", "order: jobs change their order only within this group."),
    _seconds(
        "plan_age_s",
        0.0,
        "order: jobs that have waited this long start in order of arrival. 0: computed from the queue, 1 h to 2 days.",
    ),
    _count(
        "plan_band",
        10_000,
        "order: maximum priority that a job may gain. Keep it below the steps between your QOS and partitions.",
        128,
    ),
    _seconds("plan_lag_s", 600.0, "A cycle that starts later than this stops planning for an hour.", 1.0),
    _seconds("plan_call_s", 10.0, "A call to slurmctld that takes longer than this stops planning for an hour.", 0.1),
    _one_of(
        "plan_allow",
        ",minutes",
        "minutes: plan even if accounting enforces limits of minutes (safe, TRESMins).",
        "minutes",
    ),
    _one_of(
        "private",
        "auto,yes,no",
        "Hide jobs from other users. auto: as Slurm's PrivateData.",
        f"{', '.join(YES)}; {', '.join(NO)}; auto",
    ),
)
"""Every setting. Times are in seconds."""
Values: Any = msgspec.defstruct("Values", _SETTINGS, frozen=True, kw_only=True)


class Overruled(NamedTuple):
    """A value that another source with precedence replaced: the value, and where it was set."""

    name: str
    value: Any
    source: str


class Settings(Struct, frozen=True):
    """The value and the source of every setting, and the values that were overruled."""

    values: Any
    source: Mapping[str, str]
    overruled: tuple[Overruled, ...] = ()

    def __getitem__(self, name: str) -> Any:
        return getattr(self.values, name)

    def shown(self, name: str) -> Any:
        """Return a value to show: without the user name and password that a database URL may contain."""
        value = self[name]
        return shown_url(value) if name == "store" and value else value

    def replaced(self, **values: Any) -> Settings:
        """Return a copy of the settings with other values."""
        return Settings(msgspec.structs.replace(self.values, **values), self.source, self.overruled)


_HINTS = {name: kind for name, kind, _ in _SETTINGS}
_METAS: dict[str, Meta] = {name: kind.__metadata__[0] for name, kind, _ in _SETTINGS}
NAMES = tuple(_HINTS)


def meaning(name: str) -> str:
    """Return what a setting means, in words."""
    return str(_METAS[name].description)


def accepted(name: str) -> str:
    """Return the values that a setting accepts, in words."""
    return str((_METAS[name].extra or {}).get("accepted", "text"))


def settings_file() -> str:
    """Return the text of the `batchcast.toml` that `batchcast install` writes: every setting with meaning and default.

    Every line is a comment, so the file changes no setting until an operator removes a `#`.

    >>> print("\\n".join(settings_file().splitlines()[:6]))
    # Settings of batchcast: /etc/batchcast/batchcast.toml or ~/.config/batchcast/batchcast.toml.
    # Each line "# name = value" is a default. To change a setting, remove the # and write the new value.
    # `batchcast doctor --settings` shows every value in force and where it was set.
    <BLANKLINE>
    # Job history and predictions: the path of an SQLite file, or postgresql://user@host/name.
    # store = "/var/lib/batchcast/store.db"
    """
    lines = [
        "# Settings of batchcast: /etc/batchcast/batchcast.toml or ~/.config/batchcast/batchcast.toml.",
        '# Each line "# name = value" is a default. To change a setting, remove the # and write the new value.',
        "# `batchcast doctor --settings` shows every value in force and where it was set.",
    ]
    values = Values(store="/var/lib/batchcast/store.db")
    for name in NAMES:
        value = getattr(values, name)
        text = f'"{value}"' if isinstance(value, str) else '"unlimited"' if value == math.inf else f"{value:.15g}"
        lines += ["", *textwrap.wrap(meaning(name), 100, initial_indent="# ", subsequent_indent="# ")]
        lines.append(f"# {name} = {text}")
    return "\n".join(lines) + "\n"


def load(
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    passed_over: list[InputError] | None = None,
) -> Settings:
    """Return the settings in force. Later sources have precedence: defaults, files in order, BATCHCAST_NAME, flags.

    A flag with the value None is not set. A wrong value raises InputError; if the list `passed_over` is given, the
    error is added to it and the setting does not change.
    """
    env = os.environ if environment is None else environment
    values: dict[str, Any] = {"store": str(default_store(env))}
    source = dict.fromkeys(NAMES, "built in")
    overruled: list[Overruled] = []
    for place, given in _sources(flags or {}, env):
        for name, value in given.items():
            try:
                read = _read_value(name, value, place)
            except InputError as error:
                if passed_over is None:
                    raise
                passed_over.append(error)
                continue
            if source[name] != "built in" and values[name] != read:
                overruled.append(Overruled(name, values[name], source[name]))
            values[name], source[name] = read, place if place != "--" else f"--{name.replace('_', '-')}"
    whole = Values(**values)
    if whole.interval_s < whole.floor_s and passed_over is None:
        raise UsageError(
            "interval_s is shorter than floor_s, the minimum time between two calls (accepted: floor_s or longer)"
        )
    return Settings(whole, source, tuple(overruled))


def cluster_tables(environment: Mapping[str, str] | None = None) -> tuple[str, list[Any]]:
    """Return the path and the `[[cluster]]` tables of the settings file with the highest precedence that has any."""
    env = os.environ if environment is None else environment
    for path in reversed(settings_files(env)):
        if isinstance(tables := _read(path).get("cluster"), list):
            return str(path), tables
    return "", []


def _sources(flags: Mapping[str, Any], env: Mapping[str, str]) -> list[tuple[str, dict[str, Any]]]:
    """Return the settings of each source in order of precedence, the lowest first, without the `[[cluster]]` tables."""
    places = [(str(path), _read(path)) for path in settings_files(env)]
    for _, given in places:
        if isinstance(given.get("cluster"), list):
            del given["cluster"]
    keys = {name: f"BATCHCAST_{name.upper()}" for name in NAMES}
    places += [(f"${key}", {name: env[key]}) for name, key in keys.items() if key in env]
    return [*places, ("--", {name: value for name, value in flags.items() if value is not None})]


def is_private(settings: Settings, memory: dict[str, Any]) -> bool:
    """Return whether users must not see each other's jobs: by the setting `private`, or by Slurm if it is `auto`."""
    word = settings["private"]
    return bool(memory.get("site", {}).get("private")) if word == "auto" else bool(word != "no")


def _read(path: Path) -> dict[str, Any]:
    """Return the content of a settings file; InputError if it is not readable TOML."""
    from ..ceilings import parse_toml, small_text

    if str(path) == os.devnull:  # /dev/null is the usual way to have no settings file
        return {}
    try:
        return parse_toml(small_text(path), str(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not text: {error.reason} at byte {error.start} (accepted: TOML in UTF-8)") from None


def _read_value(name: str, value: Any, place: str) -> Any:
    """Return a value with the type of its setting. A wrong value raises InputError, which lists the accepted values."""
    if name not in NAMES:
        raise InputError(f"{place}: no setting {name!r} (accepted: {', '.join(NAMES)})")
    extra: Any = _METAS[name].extra
    try:
        plain = _plain(name, value, extra["unit"])
        if isinstance(plain, float) and plain != plain:
            raise msgspec.ValidationError("not a number")
        return msgspec.convert(plain, _HINTS[name], strict=False)
    except (msgspec.ValidationError, UsageError, ValueError):
        what = f"{place}: {name} = {value!r} is not an accepted value"
        raise InputError(f"{what} (accepted: {accepted(name)})") from None


def _plain(name: str, value: Any, unit: str) -> Any:
    """Convert a value to the form that msgspec accepts: words in lower case, times in seconds, memory in KiB."""
    if name == "private":
        word = str(value).strip().lower()
        return "yes" if word in YES else "no" if word in NO else word
    if isinstance(value, bool) and unit:
        raise ValueError("a truth value is no time")
    if not unit or not isinstance(value, str):
        return value.strip().lower() if name == "scheduler" and isinstance(value, str) else value
    if unit == "memory":
        return parse_memory(value)
    if unit == "limit":
        return parse_duration(value) if value.strip() else math.inf
    try:
        return float(value)
    except ValueError:
        return parse_span(value)


LEAST_DAYS = 2.0


def own_name() -> str:
    """Return the name of the user of this process, from the user id, because environment variables cannot be
    trusted.
    """
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def planned_by(settings: Settings) -> str:
    """Return the run-time predictor that planning uses: `calibrated` if `runtime` has it, else the first of `runtime`.

    On a new site the first method learns its upper bounds from few jobs, so their coverage is too low; `calibrated`
    corrects this.
    """
    from ..predict.registry import split_specs

    methods = split_specs(settings["runtime"])
    return next((one for one in methods if one.partition(":")[0] == "calibrated"), methods[0])


def keep_since(settings: Settings, now: float) -> float | None:
    """Return the instant (epoch seconds) before which ended jobs are deleted; None if all are kept.

    Raises UsageError if `memory_days` is longer than `retention_days`, because then predictors would learn from deleted
    jobs at each start.

    >>> from .settings import load
    >>> keep_since(load({"retention_days": 400}, {}), 50_000_000.0), keep_since(load({}, {}), 50_000_000.0)
    (15440000.0, None)
    """
    days, taught = float(settings["retention_days"]), max(float(settings["memory_days"]), LEAST_DAYS)
    if 0 < days < taught:
        raise UsageError(
            f"retention_days: {days:g} days are shorter than the history that predictors learn from "
            f"(accepted: {taught:g} or more, 0 for all)",
            hint="memory_days sets the length of that history",
        )
    return now - days * 86400 if days else None


def are_users_hidden(environment: Mapping[str, str] | None = None) -> tuple[bool, str]:
    """Return whether results must not name users, and the reason if this is only assumed (else an empty text).

    With `auto`, the facts that the collector stored about every cluster decide: if one cluster hides jobs, the users of
    all logs are hidden, because the cluster of a log is unknown. If the settings or the store cannot be read, or the
    store does not state whether jobs are hidden, users are hidden too, because a name that was shown once cannot be
    hidden again. Without settings and store batchcast is not installed for a site, and users are named as in the log.

    >>> are_users_hidden({"BATCHCAST_PRIVATE": "no"}), are_users_hidden({"BATCHCAST_PRIVATE": "yes"})
    ((False, ''), (True, ''))
    """
    env = os.environ if environment is None else environment
    if not is_site(env):
        return False, ""
    try:
        settings = load(environment=env)
    except BatchcastError as error:
        return True, error.message
    if settings["private"] != "auto":
        return settings["private"] == "yes", ""
    from ..store.reader import Reader

    try:
        with Reader(settings["store"]) as reader:
            sites: list[Mapping[str, Any]] = [reader.memory(name).get("site", {}) for name in reader.clusters()]
    except (BatchcastError, OSError, ValueError) as error:
        return True, f"private = auto, and {error.message if isinstance(error, BatchcastError) else error}"
    if any(site.get("private", False) for site in sites):
        return True, ""
    unknown = not sites or any("private" not in site for site in sites)
    return unknown, "private = auto, and the store does not say whether its cluster hides jobs" if unknown else ""


NO_MACHINE = "none"


def machine_at(path: str, captured: Path | None = None) -> Machine | None:
    """Return the machine that the setting `machine` names, or the captured machine if the setting is empty."""
    if not path and captured is not None and os.access(captured, os.R_OK):
        path = str(captured)
    if path in ("", NO_MACHINE):
        return None
    from ..trace.machine_files import open_machine

    return open_machine(path)
