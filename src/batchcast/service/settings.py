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
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_type_hints

import msgspec
from msgspec import Meta, Struct

from ..errors import BatchcastError, InputError, UsageError
from ..store.place import default_store as default_store
from ..store.place import is_site, settings_files
from ..units import MEMORY_FORMS, SPAN_FORMS, parse_duration, parse_memory, parse_span

if TYPE_CHECKING:
    from ..machines.machine import Machine

YES, NO = ("yes", "true", "on", "1"), ("no", "false", "off", "0")


def _words(meaning: str, accepted: str = "text") -> Meta:
    return Meta(description=meaning, extra={"accepted": accepted})


def _seconds(meaning: str, least: float = 0.0) -> Meta:
    return Meta(description=meaning, ge=least, extra={"accepted": f"seconds, {SPAN_FORMS}", "unit": "s"})


def _limit(meaning: str) -> Meta:
    return Meta(description=meaning, gt=0, extra={"accepted": "a time limit as Slurm takes it", "unit": "limit"})


def _memory(meaning: str) -> Meta:
    return Meta(description=meaning, gt=0, extra={"accepted": MEMORY_FORMS, "unit": "memory"})


def _count(meaning: str, least: float) -> Meta:
    return Meta(description=meaning, ge=least, extra={"accepted": f"a number from {least:g} on"})


class Values(Struct, frozen=True, kw_only=True):
    """Every setting with its type, default and meaning. Times are in seconds."""

    store: Annotated[
        str, _words("Job history and predictions: the path of an SQLite file, or postgresql://user@host/name.")
    ] = ""
    scheduler: Annotated[Literal["slurm", "pbs"], _words("The batch system.", "slurm, pbs")] = "slurm"
    cluster: Annotated[str, _words("Name of the cluster. Empty: the name that the batch system reports.")] = ""
    runtime: Annotated[str, _words("Run-time predictors, NAME:key=value,...")] = "kernel,recent_mean,last_2,calibrated"
    memory: Annotated[
        str,
        _words("Run-time methods that predict peak memory. Users see the first. Empty: no memory predictions."),
    ] = "kernel,largest_recent"
    limits: Annotated[
        str,
        _words(
            "Run-time methods that suggest time limits. Users see the first. Empty: use similar finished jobs only."
        ),
    ] = "calibrated,largest_recent"
    wait: Annotated[
        str,
        _words(
            "Wait predictors, NAME:key=value,... The first answers users while its 90 % bound is valid, else the best."
        ),
    ] = "forecast,recent_wait,log_uniform,qbets"
    machine: Annotated[
        str,
        _words(
            "Machine on whose nodes `forecast` simulates Slurm. Empty: the collector captures the machine from Slurm."
            " A file: written by `batchcast machine capture -o FILE`. none: simulate a pool of processors only."
        ),
    ] = ""
    input_roots: Annotated[
        str,
        _words(
            "Directories below which the collector reads the input files of new jobs (VASP, Quantum ESPRESSO),"
            " separated by commas. Empty: it reads none.",
            "absolute directories",
        ),
    ] = ""
    input_s: Annotated[
        float, _seconds("Longest time to read the input files of a job. A slower directory is skipped.", 0.1)
    ] = 2.0
    interval_s: Annotated[float, _seconds("Time between two queries of the queue (one collector cycle).", 0.1)] = 30.0
    floor_s: Annotated[float, _seconds("Minimum time between two calls to the same daemon.")] = 1.0
    timeout_s: Annotated[float, _seconds("A call that takes longer counts as failed.", 0.1)] = 30.0
    back_off_s: Annotated[
        float, _seconds("Pause after a failed call. The pause doubles with each further failure.")
    ] = 15.0
    longest_back_off_s: Annotated[float, _seconds("Maximum pause after failed calls.")] = 600.0
    settle_s: Annotated[
        float, _seconds("The live clock stays this far behind each query, so that no event arrives late.")
    ] = 2.0
    history_days: Annotated[float, _count("Days of history that the first start reads from accounting.", 0)] = 30.0
    memory_days: Annotated[float, _count("Days of history that predictors learn from at each start.", 0.01)] = 90.0
    retention_days: Annotated[float, _count("Finished jobs are deleted after this many days. 0: never.", 0)] = 0.0
    window_s: Annotated[float, _seconds("Length of the time window of one query to accounting.", 1.0)] = 86400.0
    overlap_s: Annotated[float, _seconds("Overlap of two consecutive windows.")] = 3600.0
    history_every_s: Annotated[float, _seconds("Time between queries to accounting when no job record is missing.")] = (
        300.0
    )
    patience_s: Annotated[
        float, _seconds("How long the live clock waits for a job that neither queue nor accounting shows.")
    ] = 300.0
    limit_floor: Annotated[float, _limit("Shortest time limit that `walltime` suggests.")] = 300.0
    limit_step: Annotated[float, _limit("Suggested time limits are rounded up to a multiple of this.")] = 300.0
    limit_most: Annotated[
        float, _limit("Longest time limit that `walltime` suggests. unlimited: the partition's maximum.")
    ] = math.inf
    memory_floor: Annotated[float, _memory("Smallest memory request that `walltime` suggests.")] = 100.0 * 1024
    memory_step: Annotated[float, _memory("Suggested memory requests are rounded up to a multiple of this.")] = (
        100.0 * 1024
    )
    listen: Annotated[str, _words("Address of `serve`: the path of a unix socket, or 127.0.0.1:PORT.")] = (
        "/run/batchcast/api.sock"
    )
    proxy_from: Annotated[
        str, _words("Proxy that may name the user of a request: a unix user or an IP address. Empty: none.")
    ] = ""
    proxy_header: Annotated[str, _words("HTTP header in which the proxy names the user. Empty: none.")] = ""
    submit_from: Annotated[
        str, _words("Unix user of slurmctld. Its job_submit.lua may query hints for every user.")
    ] = "slurm"
    log_format: Annotated[
        Literal["text", "json"],
        _words("Format of the log lines of `collect` and `serve`. json: one object per line.", "text, json"),
    ] = "text"
    least_users: Annotated[int, _count("If jobs are private, statistics cover at least this many users.", 1)] = 5
    plan: Annotated[
        Literal["off", "advise", "plan", "time-min", "order", "limits", "both"],
        _words(
            "What batchcast changes in Slurm. off: nothing. advise: writes a predicted start into the job's comment."
            " limits: sets time limits of waiting jobs from run-time predictions. order: sets priorities (SiteFactor),"
            " least predicted work first. both: limits and order. time-min: sets Slurm's --time-min.",
            "off, advise, limits, order, both, time-min",
        ),
    ] = "off"
    plan_partitions: Annotated[str, _words("Partitions whose jobs are planned, separated by commas.")] = ""
    plan_qos: Annotated[str, _words("QOS whose jobs are planned, separated by commas.")] = ""
    plan_order_by: Annotated[
        Literal["prediction", "limits"],
        _words(
            "order: what counts as a job's run time. prediction: the 90 % quantile of the predicted run time, at most"
            " the time limit. limits: the user's time limit, without predictions.",
            "prediction, limits",
        ),
    ] = "prediction"
    plan_length_quantile: Annotated[
        float,
        Meta(
            description="limits: quantile of the predicted run time that becomes the planned time limit.",
            gt=0,
            lt=1,
            extra={"accepted": "0 to 1"},
        ),
    ] = 0.8
    plan_shortest_s: Annotated[
        float, _seconds("Jobs with a shorter median prediction are not planned. 0: plan all.")
    ] = 30.0
    plan_list: Annotated[
        str, _words("File in which batchcast-start (PrologSlurmctld) finds the planned jobs. Empty: none.")
    ] = ""
    plan_percent: Annotated[
        float,
        Meta(
            description="Share of the jobs that are planned, in percent.", ge=0, le=100, extra={"accepted": "0 to 100"}
        ),
    ] = 100.0
    plan_seed: Annotated[int, _count("Random seed that selects the planned jobs.", 0)] = 0
    plan_within: Annotated[
        Literal["queue", "account", "user"],
        _words("order: jobs change their order only within this group.", "queue, account, user"),
    ] = "queue"
    plan_age_s: Annotated[
        float,
        _seconds(
            "order: jobs that have waited this long start in order of arrival. 0: computed from the queue, 1 "
            "h to 2 days."
        ),
    ] = 0.0
    plan_band: Annotated[
        int,
        _count(
            "order: maximum priority that a job may gain. Keep it below the steps between your QOS and partitions.",
            128,
        ),
    ] = 10_000
    plan_lag_s: Annotated[float, _seconds("A cycle that starts later than this stops planning for an hour.", 1.0)] = (
        600.0
    )
    plan_call_s: Annotated[
        float, _seconds("A call to slurmctld that takes longer than this stops planning for an hour.", 0.1)
    ] = 10.0
    plan_allow: Annotated[
        Literal["", "minutes"],
        _words("minutes: plan even if accounting enforces limits of minutes (safe, TRESMins).", "minutes"),
    ] = ""
    private: Annotated[
        Literal["yes", "no", "auto"],
        _words(
            "Hide jobs from other users. auto: as Slurm's PrivateData.",
            f"{', '.join(YES)}; {', '.join(NO)}; auto",
        ),
    ] = "auto"


class Overruled(NamedTuple):
    """A value that another source with precedence replaced: the value, and where it was set."""

    name: str
    value: Any
    place: str


class Settings(Struct, frozen=True):
    """The value and the source of every setting, and the values that were overruled."""

    values: Values
    source: Mapping[str, str]
    overruled: tuple[Overruled, ...] = ()

    def __getitem__(self, name: str) -> Any:
        return getattr(self.values, name)

    def shown(self, name: str) -> Any:
        """Return a value to show: without the user name and password that a database URL may contain."""
        from ..store.place import shown_url

        value = self[name]
        return shown_url(value) if name == "store" and value else value

    def replaced(self, **values: Any) -> Settings:
        """Return a copy of the settings with other values."""
        return Settings(msgspec.structs.replace(self.values, **values), self.source, self.overruled)


_HINTS = get_type_hints(Values, include_extras=True)
_METAS: dict[str, Meta] = {name: hint.__metadata__[0] for name, hint in _HINTS.items()}
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
    for place, given in _places(flags or {}, env):
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
            values[name], source[name] = read, place if not place.startswith("--") else f"--{name.replace('_', '-')}"
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


def _places(flags: Mapping[str, Any], env: Mapping[str, str]) -> list[tuple[str, dict[str, Any]]]:
    """Return the settings of each source in order of precedence, the lowest first, without the `[[cluster]]` tables."""
    places = [
        (str(path), {name: value for name, value in _read(path).items() if not _is_tables(name, value)})
        for path in settings_files(env)
    ]
    keys = {name: f"BATCHCAST_{name.upper()}" for name in NAMES}
    places += [(f"${key}", {name: env[key]}) for name, key in keys.items() if key in env]
    return [*places, ("--", {name: value for name, value in flags.items() if value is not None})]


def _is_tables(name: str, value: Any) -> bool:
    """Return whether an entry of a settings file is the list of `[[cluster]]` tables."""
    return name == "cluster" and isinstance(value, list)


def is_private(settings: Settings, memory: dict[str, Any]) -> bool:
    """Return whether users must not see each other's jobs: by the setting `private`, or by Slurm if it is `auto`."""
    word = settings["private"]
    return bool(memory.get("site", {}).get("private")) if word == "auto" else bool(word != "no")


def _read(path: Path) -> dict[str, Any]:
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
    extra = _METAS[name].extra or {}
    try:
        plain = _plain(name, value, extra.get("unit"))
        if isinstance(plain, float) and plain != plain:
            raise msgspec.ValidationError("not a number")
        return msgspec.convert(plain, _HINTS[name], strict=False)
    except (msgspec.ValidationError, UsageError, ValueError):
        what = f"{place}: {name} = {value!r} is not an accepted value"
        raise InputError(f"{what} (accepted: {accepted(name)})") from None


def _plain(name: str, value: Any, unit: str | None) -> Any:
    """Convert a value to the form that msgspec accepts: words in lower case, times in seconds, memory in KiB."""
    if name == "private":
        word = str(value).strip().lower()
        return "yes" if word in YES else "no" if word in NO else word
    if isinstance(value, bool) and unit is not None:
        raise ValueError("a truth value is no time")
    if unit is None or not isinstance(value, str):
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
    calibrated = next((one for one in methods if one.partition(":")[0] == "calibrated"), methods[0])
    return str(calibrated)


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
    try:
        return _as_the_store_says(settings["store"])
    except (BatchcastError, OSError, ValueError) as error:
        return True, f"private = auto, and {error.message if isinstance(error, BatchcastError) else error}"


def _as_the_store_says(store: str) -> tuple[bool, str]:
    from ..store.reader import Reader

    with Reader(store) as reader:
        sites: list[Mapping[str, Any]] = [reader.memory(name).get("site", {}) for name in reader.clusters()]
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
