"""The service's settings and where each came from: built in, /etc, the user's file, the environment, a flag."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InputError, UsageError
from ..units import parse_duration, parse_span


class Setting(NamedTuple):
    """One setting: its built-in value, how its text is read, and what it means."""

    default: Any
    read: Callable[[str], Any]
    meaning: str


def _seconds(text: str) -> float:
    """Seconds from a plain number, or from a span or Slurm time."""
    try:
        return float(text)
    except ValueError:
        return parse_span(text)


def _limit(text: str) -> float:
    return parse_duration(text) if text else float("nan")


SETTINGS: dict[str, Setting] = {
    "store": Setting("", str, "path of an SQLite file, or postgresql://user@host/name"),
    "scheduler": Setting("slurm", str, "the batch system: slurm or pbs"),
    "cluster": Setting("", str, "the cluster's name; empty: as the batch system says"),
    "runtime": Setting("recent_mean", str, "the run-time predictor, NAME:key=value,..."),
    "wait": Setting("recent_wait", str, "the wait predictor, NAME:key=value,..."),
    "interval_s": Setting(30.0, _seconds, "between two looks at the queue"),
    "floor_s": Setting(1.0, _seconds, "least time between two calls to one daemon"),
    "timeout_s": Setting(30.0, _seconds, "an answer that takes longer is none"),
    "back_off_s": Setting(15.0, _seconds, "pause after a failed call, doubled at each further one"),
    "longest_back_off_s": Setting(600.0, _seconds, "the longest such pause"),
    "settle_s": Setting(2.0, _seconds, "how far behind a look the clock stays, so that nothing arrives late"),
    "history_days": Setting(30.0, float, "how much history the first start reads from accounting"),
    "window_s": Setting(86400.0, _seconds, "length of one question to accounting"),
    "overlap_s": Setting(3600.0, _seconds, "how far each window reaches into the one before"),
    "history_every_s": Setting(300.0, _seconds, "between two questions to accounting when nothing is missing"),
    "patience_s": Setting(3600.0, _seconds, "how long the clock waits for the end of a job nobody shows any more"),
    "limit_floor": Setting("0:05:00", str, "the shortest limit that `walltime` advises"),
    "limit_step": Setting("0:05:00", str, "limits are rounded up to a multiple of this"),
    "limit_most": Setting("", str, "the longest limit; empty: the partition's"),
    "listen": Setting("/run/batchcast/api.sock", str, "where `serve` answers: a path, or 127.0.0.1:PORT"),
    "least_users": Setting(5, int, "where jobs are private, figures cover at least so many users"),
    "private": Setting("auto", str, "may users see each other's jobs: yes, no, auto (as the site's PrivateData says)"),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting's value, and the place each came from."""

    values: Mapping[str, Any]
    source: Mapping[str, str]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def shown(self, name: str) -> Any:
        """The value as it may be shown: without the password a database URL may carry."""
        value = self.values[name]
        return re.sub(r"(://[^:/@]+):[^@]*@", r"\1:***@", value) if isinstance(value, str) else value


def load(flags: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """The settings in force; a later place wins: built in, files in order, BATCHCAST_NAME, flags that are not None."""
    env = os.environ if environment is None else environment
    values: dict[str, Any] = {name: setting.default for name, setting in SETTINGS.items()}
    source = dict.fromkeys(SETTINGS, "built in")
    values["store"] = str(default_store(env))
    for path in files(env):
        for name, value in _read(path).items():
            _set(values, source, name, value, str(path))
    for name in SETTINGS:
        key = f"BATCHCAST_{name.upper()}"
        if key in env:
            _set(values, source, name, env[key], f"${key}")
    for name, value in (flags or {}).items():
        if value is not None:
            _set(values, source, name, value, f"--{name.replace('_', '-')}")
    if values["interval_s"] < values["floor_s"]:
        raise UsageError(
            "interval_s is below floor_s: the queue cannot be looked at more often than a daemon is called"
        )
    return Settings(values, source)


def files(env: Mapping[str, str]) -> list[Path]:
    """The files that are read if they are there, the weakest first; BATCHCAST_CONFIG stands for all of them."""
    if env.get("BATCHCAST_CONFIG"):
        return [Path(env["BATCHCAST_CONFIG"])]
    home = Path(env.get("XDG_CONFIG_HOME") or Path(env.get("HOME", "/")) / ".config")
    return [
        path for path in (Path("/etc/batchcast/batchcast.toml"), home / "batchcast" / "batchcast.toml") if path.exists()
    ]


def default_store(env: Mapping[str, str]) -> Path:
    """The site's store where there is one, else the user's own."""
    shared = Path("/var/lib/batchcast/store.db")
    home = Path(env.get("XDG_DATA_HOME") or Path(env.get("HOME", "/")) / ".local" / "share")
    return shared if shared.exists() else home / "batchcast" / "store.db"


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not TOML: {error}") from None


def _set(values: dict[str, Any], source: dict[str, str], name: str, value: Any, place: str) -> None:
    if name not in SETTINGS:
        raise InputError(f"{place}: no setting {name!r} (accepted: {', '.join(SETTINGS)})")
    try:
        values[name] = SETTINGS[name].read(str(value))
    except ValueError:
        raise InputError(f"{place}: {name} = {value!r} is not a number") from None
    except UsageError as error:
        raise InputError(f"{place}: {name}: {error.message}") from None
    source[name] = place
