# SPDX-License-Identifier: Apache-2.0
"""Read a study from TOML and check it before it runs. Error messages name the line and the accepted values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import msgspec

from ..ceilings import parse_toml
from ..errors import InputError, UsageError, check_word, input_error
from ..formats import format_names
from ..units import parse_duration, parse_share

HINT = (
    "a minimal study has three lines: policies = ['easy'], predictors = ['requested', 'kernel'], [[log]] path = 'LOG'"
)
SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
Words = tuple[str, ...]
Settings = Mapping[str, Any]


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base class of a study's tables; unknown keys are rejected."""


class LogFile(_Part, frozen=True):
    """One log: its path, how to read it, and which jobs to select, with the names of the command-line options."""

    path: str
    name: str = ""
    clean: Words = ()
    procs: Literal["req", "alloc"] | None = None
    procs_total: float | Literal["peak"] | None = None
    timezone: str | None = None
    format: str | None = None
    map: str | None = None
    status: Words = ()
    partition: Words = ()
    queue: Words = ()
    cluster: Words = ()
    first: int | None = None


class Period(_Part, frozen=True):
    """Jobs submitted at or after `from` and before `to`, in the log's time zone."""

    name: str = ""
    since: str | None = msgspec.field(default=None, name="from")
    until: str | None = msgspec.field(default=None, name="to")


class Plans(_Part, frozen=True):
    """Policies and predictors of which the study simulates all combinations."""

    policies: Words
    predictors: Words


class Cost(_Part, frozen=True):
    """The expected run time of a task in seconds, used if no similar task was measured."""

    seconds: float


class Slurm(_Part, frozen=True):
    """The resources of a worker of `--pool slurm`, and the network interface by which nodes reach this host."""

    partition: str | None = None
    account: str | None = None
    walltime: str = "01:00:00"
    memory: str = "2GB"
    workers: int = 4
    interface: str = ""
    directives: Words = ()
    prologue: Words = ()


class Study(_Part, frozen=True):
    """A whole study. `itself` says whether the unchanged log is included as replicate 0."""

    log: tuple[LogFile, ...]
    name: str = ""
    seed: int = 0
    replicates: int = 0
    itself: bool = True
    policies: Words = ()
    predictors: Words = ()
    plan: tuple[Plans, ...] = ()
    period: tuple[Period, ...] = (Period(),)
    against: Words = ()
    settings: dict[str, Any] = {}
    vary: dict[str, list[Any]] = {}
    cost: Cost | None = None
    slurm: Slurm = Slurm()

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The study's combinations of policy and predictor, in the declared order, without repetitions."""
        groups = [*([Plans(policies=self.policies, predictors=self.predictors)] if self.policies else []), *self.plan]
        return list(dict.fromkeys((p, r) for group in groups for p in group.policies for r in group.predictors))


def read_study(text: str, path: str = "study.toml") -> Study:
    """Read a study from a TOML text.

    >>> study = read_study('policies = ["easy", "fcfs"]\\npredictors = ["requested"]\\n[[log]]\\npath = "a.swf"')
    >>> study.pairs, study.log[0].name
    ([('easy', 'requested'), ('fcfs', 'requested')], 'a')
    >>> read_study('policies = ["easier"]\\npredictors = ["requested"]\\n[[log]]\\npath = "a.swf"')
    Traceback (most recent call last):
    batchcast.errors.InputError: study.toml:1: no policy 'easier' (accepted: fcfs, easy, ...
    """
    plain = parse_toml(text, path, HINT)
    try:
        study = msgspec.convert(plain, Study, strict=False)
    except msgspec.ValidationError as error:
        raise _refused(path, text, str(error)) from None
    replace = msgspec.structs.replace
    study = replace(
        study,
        log=tuple(replace(log, name=log.name or stem(log.path)) for log in study.log),
        period=tuple(
            p if p.name or not (p.since or p.until) else replace(p, name=f"{p.since or ''}..{p.until or ''}")
            for p in study.period
        ),
    )
    check(study, path, text)
    return study


def check(study: Study, path: str, text: str) -> None:
    """Raise InputError for contradictions in a study that the types of the values do not exclude."""
    if not study.log:
        raise input_error(path, "a study needs a [[log]] with a path", hint=HINT)
    if bool(study.policies) != bool(study.predictors) or not study.pairs:
        raise input_error(path, "a study needs policies and predictors, at the top or in [[plan]]", hint=HINT)
    for what, names in (("log", [log.name for log in study.log]), ("period", [p.name for p in study.period])):
        for name in names:
            if names.count(name) > 1:
                twice = f"two [[{what}]] tables have the name"
                raise input_error(path, twice, value=name, accepted="a `name` for each")
    for log in study.log:
        if not SAFE.fullmatch(log.name):
            raise input_error(
                path, "the name of a log is used as the name of a folder", line=line_of(text, log.name),
                value=log.name, accepted="letters, digits and . _ + -",
            )  # fmt: skip
        if log.format is not None:
            _in_file(path, text, log.format, partial(check_word, "format", log.format, format_names()))
        if "reference" in log.clean and log.procs == "req":
            raise input_error(path, f"{log.name}: clean = reference implies procs = alloc", hint="without procs")
    for value, least, key in ((study.replicates, 0, "replicates"), (study.seed, 0, "seed"),
                              (study.slurm.workers, 1, "workers")):  # fmt: skip
        if value < least:
            raise input_error(path, key, line=line_of(text, key), value=value, accepted=f"{least} or more")
    if not study.replicates and not study.itself:
        raise input_error(path, "nothing to simulate: no replicates, and itself = false", hint="replicates = 20")
    _check_words(study, path, text)


def _check_words(study: Study, path: str, text: str) -> None:
    """Check a study's policies, predictors, settings and reference plans as the command line does."""
    from ..predict.registry import make
    from ..simulation.policies import policy_of

    given: dict[str, Any] = {"known_at_submit": None, "max_procs": 1.0, "answers": ()}
    for policy, predictor in study.pairs:
        _in_file(path, text, policy, partial(policy_of, policy))
        _in_file(path, text, predictor, partial(make, "runtime", predictor, **given))
    for key, values in {**{k: [v] for k, v in study.settings.items()}, **study.vary}.items():
        for value in values:
            _in_file(path, text, key, partial(setting, key, value))
    named = [f"{policy}, {predictor}" for policy, predictor in study.pairs]
    for name in study.against:
        if name not in named:
            raise input_error(path, "against", line=line_of(text, name), value=name, accepted="; ".join(named))


def _in_file(path: str, text: str, word: str, check: Callable[[], object]) -> None:
    """Run a check and add the study's file and line to its error."""
    try:
        check()
    except UsageError as error:
        line = line_of(text, word)
        place = path if line is None else f"{path}:{line}"
        raise InputError(f"{place}: {error.message}", hint=error.hint or HINT) from None


def setting(key: str, value: Any) -> Any:
    """Return one setting of a simulation in the form that `simulate` takes; UsageError for an unknown key or value.

    >>> setting("default_request", "1h"), setting("plan_level", "90%")
    (3600.0, 0.9)
    """
    from ..events.setup import WORDS

    check_word("settings", key, ("loop", "protocol", "wide", "default_request", "plan_level", "total"))
    if key in WORDS:
        check_word(key, value, WORDS[key])
        return value
    if key == "default_request":
        return parse_duration(value) if isinstance(value, str) else float(value)
    if key == "plan_level":
        return parse_share(str(value))
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise UsageError(f"total: {value!r} (accepted: a number of processors above 0)")
    return float(value)


def stem(path: str) -> str:
    """Return a file's name without folder and endings, as the name of a log.

    >>> stem("logs/KTH-SP2-1996-2.1-cln.swf.gz"), stem("jobs.txt")
    ('KTH-SP2-1996-2.1-cln', 'jobs')
    """
    name = path.replace("\\", "/").rpartition("/")[2]
    return re.sub(r"(\.(swf|csv|txt|parquet|tsv|log))?(\.(gz|xz|bz2))?$", "", name) or "log"


def line_of(text: str, word: str) -> int | None:
    """Return the number of the first line that contains a word, from 1; None if there is none.

    >>> line_of("a = 1\\nb = 2", "b")
    2
    """
    return next((k for k, line in enumerate(text.splitlines(), 1) if word and word in line.partition("#")[0]), None)


_KEY_PATH = re.compile(r" - at `\$?\.?(?P<place>[^`]*)`")
_UNKNOWN = re.compile(r"unknown field `(?P<key>[^`]*)`")
_TABLES: Mapping[str, Any] = {
    "log": LogFile, "period": Period, "plan": Plans, "cost": Cost, "slurm": Slurm, "": Study,
}  # fmt: skip


def _refused(path: str, text: str, message: str) -> InputError:
    """Return msgspec's error as an InputError: where, what is wrong, and what is accepted."""
    at = _KEY_PATH.search(message)
    place = re.sub(r"\[(\d+|\.\.\.)\]", "", at["place"]) if at else ""
    if unknown := _UNKNOWN.search(message):
        fields = msgspec.structs.fields(_TABLES[place.partition(".")[0]])
        accepted = ", ".join(field.encode_name for field in fields)
        where = f"no such key in [{place}]" if place else "no such key"
        return input_error(path, where, line=line_of(text, unknown["key"]), value=unknown["key"], accepted=accepted,
                           hint=HINT)  # fmt: skip
    what = _KEY_PATH.sub("", message)
    return input_error(path, f"{place or 'the study'}: {what}", line=line_of(text, place.rpartition(".")[2]), hint=HINT)
