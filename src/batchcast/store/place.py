# SPDX-License-Identifier: Apache-2.0
"""Where settings and a store lie and what may be wrong there, without the cost of loading an ORM."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from ..errors import BatchcastError, InputError, NoStore, Unreachable

OLDEST, VERSION = 9, 13
"""Of the tables: the oldest that is brought up to date, and this one; `database.py` holds the steps."""
OPEN_PARAMETERS = frozenset({"host", "hostaddr", "port", "dbname", "connect_timeout", "application_name", "sslmode"})
_ACCEPTED = "a path, sqlite:///path, postgresql://user@host/name"


def settings_files(env: Mapping[str, str]) -> list[Path]:
    """The files of settings that are read if there, the weakest first; BATCHCAST_CONFIG stands for all of them.

    A personal file in a home that this user may not look into is another user's, and not read.
    """
    if env.get("BATCHCAST_CONFIG"):
        return [Path(env["BATCHCAST_CONFIG"])]
    home = Path(env.get("XDG_CONFIG_HOME") or Path(env.get("HOME", "/")) / ".config")
    own = home / "batchcast" / "batchcast.toml"
    site = Path("/etc/batchcast/batchcast.toml")
    return [path for path, there in ((site, site.exists()), (own, os.access(own, os.R_OK))) if there]


def default_store(env: Mapping[str, str]) -> Path:
    """The site's store where there is one, else the user's own."""
    shared = Path("/var/lib/batchcast/store.db")
    try:
        there = shared.exists() or os.access(shared.parent, os.W_OK)  # made by the collector's unit
    except PermissionError:  # closed to this user, and there: whoever runs the service answers
        there = True
    home = Path(env.get("XDG_DATA_HOME") or Path(env.get("HOME", "/")) / ".local" / "share")
    return shared if there else home / "batchcast" / "store.db"


def is_site(env: Mapping[str, str]) -> bool:
    """Whether batchcast is set up here: a file of settings, a setting that bears on this, or a store."""
    if settings_files(env) or any(f"BATCHCAST_{name}" in env for name in ("PRIVATE", "STORE")):
        return True
    try:
        return default_store(env).exists()
    except OSError:  # closed to this user, and there
        return True


def normal_url(url: str) -> str:
    """A path becomes an SQLite URL; `postgres://` and `postgresql://` name the psycopg driver.

    Any other kind of URL, and one with a port that is no number, is an InputError.

    >>> normal_url("/var/lib/batchcast/store.db"), normal_url("postgresql://h/db")
    ('sqlite:////var/lib/batchcast/store.db', 'postgresql+psycopg://h/db')
    """
    if "://" not in url:
        return f"sqlite:///{os.path.abspath(url)}"
    scheme, rest = url.split("://", 1)
    if scheme == "sqlite" and rest.startswith("/"):
        return url
    if scheme not in ("postgres", "postgresql", "postgresql+psycopg"):
        raise InputError(f"no store of the kind {scheme}:// (accepted: {_ACCEPTED})")
    try:
        _ = urlsplit(url).port
    except ValueError as error:
        raise InputError(f"{shown_url(url)}: {error} (accepted: {_ACCEPTED})") from None
    return f"postgresql+psycopg://{rest}"


def sqlite_path(url: str) -> Path | None:
    """The file of an SQLite store, None for any other."""
    normal = normal_url(url)
    return Path(normal.removeprefix("sqlite:///")) if normal.startswith("sqlite:///") else None


def shown_url(url: str) -> str:
    """The URL or path as it may be shown to anybody: only machine, port and database, whatever else it holds.

    >>> shown_url("postgresql://ada:secret@db:5433/jobs?password=secret&sslkey=/k&connect_timeout=5")
    'postgresql://db:5433/jobs'
    """
    if url.startswith("sqlite:///") or "://" not in url:
        return os.path.abspath(url.removeprefix("sqlite:///"))
    scheme, _, rest = url.partition("://")
    where = rest.partition("?")[0].partition("#")[0].rpartition("@")[2]
    host = dict(parse_qsl(rest.partition("?")[2])).get("host", "")  # a place like any other, often a socket's folder
    return f"{scheme.partition('+')[0]}://{where}" + (f"?host={host}" if host and "@" not in host else "")


def without_secrets(text: str, url: str) -> str:
    """A database's complaint without what the URL alone may hold: its user, its password, its secret parameters."""
    if "://" not in url or url.startswith("sqlite:"):
        return text
    rest = url.partition("://")[2]
    who = rest.partition("?")[0].rpartition("@")[0]
    user, _, password = who.partition(":")
    given = [v for k, v in parse_qsl(rest.partition("?")[2]) if k not in OPEN_PARAMETERS]
    secrets = {unquote(word) for word in (password, user)} | {password, user, *given}
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", "***", text)
    return text


def refuse_newer(shown: str, version: int) -> None:
    """BatchcastError for a store that a newer batchcast wrote: nobody reads or writes it with this one."""
    if version > VERSION:
        raise BatchcastError(
            f"{shown} has schema version {version}, this batchcast knows up to {VERSION}",
            hint="use the batchcast that wrote it, or a newer one; or put back the copy from before the update",
        )


def refuse_older(shown: str, version: int) -> None:
    """BatchcastError for a store of before the versions that are brought up to date; nothing in it is changed."""
    if version < OLDEST:
        raise BatchcastError(
            f"{shown} has schema version {version}, this batchcast brings {OLDEST} and later up to date",
            hint="where the batchcast that wrote it plans, its `batchcast plan --off` first; then move it away and "
            "start batchcast collect: history comes back from accounting, issued forecasts do not",
        )


def check_there(path: Path) -> None:
    """NoStore when there is no such file; what else is wrong with the place, said."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise NoStore(
            f"there is no store at {path}",
            hint="batchcast collect makes it; batchcast doctor shows where it is looked for",
        ) from None
    except OSError as error:
        raise Unreachable(
            f"{path} cannot be looked at: {error.strerror}", hint="ask its owner for access, or name another --store"
        ) from None
    if path.is_dir():
        raise InputError(f"{path} is a directory", hint=f"name the file in it: --store {path}/store.db")


def mode_of(url: str) -> int:
    """The permission bits of a store's file; of a database without a file its owner's alone."""
    path = sqlite_path(url)
    return 0o600 if path is None else path.stat().st_mode & 0o777


OTHERS = 0o077
"""The permission bits of everybody but the owner."""


def is_open(url: str) -> bool:
    """Whether somebody but its owner may read or write the file of a store; a database without a file is closed."""
    return bool(mode_of(url) & OTHERS)


def close_to_others(url: str) -> bool:
    """Take every right of others from an SQLite store and the files that SQLite keeps beside it; whether there was one.

    OSErrors pass: only its owner may do that.
    """
    path = sqlite_path(url)
    beside = [] if path is None else [path.with_name(path.name + end) for end in ("", "-wal", "-shm")]
    opened = [one for one in beside if one.exists() and one.stat().st_mode & OTHERS]
    for one in opened:
        one.chmod(one.stat().st_mode & 0o777 & ~OTHERS)
    return bool(opened)


def open_to_others(url: str) -> None:
    """Give others what this process's umask leaves them: of a new store, on a site that hides no jobs."""
    path, mask = sqlite_path(url), os.umask(0)
    os.umask(mask)
    for end in ("", "-wal", "-shm") if path is not None else ():
        assert path is not None
        if (one := path.with_name(path.name + end)).exists():
            one.chmod(0o666 & ~mask)


def make_closed(path: Path) -> bool:
    """Make the file of a new store for its owner alone, before anything is written to it; False where it is there."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    except OSError as error:
        raise InputError(
            f"{path} cannot be made: {error.strerror}",
            hint="name a place this user may write to: --store PATH, or BATCHCAST_STORE",
        ) from None
    return True


def make_room(path: Path) -> None:
    """The directory of a store that is about to be made."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        taken = path.is_dir()
    except OSError as error:
        raise InputError(
            f"{path} cannot be made: {error.strerror}",
            hint="name a place this user may write to: --store PATH, or BATCHCAST_STORE",
        ) from None
    if taken:
        raise InputError(f"{path} is a directory", hint=f"name the file in it: --store {path}/store.db")


def trouble(shown: str, complaint: str, *, away: bool = False, full: bool = False) -> BatchcastError:
    """A database's complaint as one of batchcast's errors, with what to do; `away`: it does not answer at all."""
    if full or "database or disk is full" in complaint or "No space" in complaint:
        return BatchcastError(
            f"the disk of {shown} is full ({complaint}); nothing was written",
            hint="make room; the collector goes on by itself",
        )
    if "malformed" in complaint or "not a database" in complaint:
        return InputError(
            f"{shown} is damaged, or not a store of batchcast: {complaint}",
            hint="restore a backup, or move it away and start batchcast collect: history comes back from accounting",
        )
    if (
        "no such table" in complaint
        or "no such column" in complaint
        or ("relation" in complaint and "does not exist" in complaint)
    ):
        return InputError(
            f"{shown} is not a store of batchcast, or not of this version: {complaint}",
            hint="batchcast collect makes one and brings an older one up to date",
        )
    if (
        "readonly" in complaint
        or "read-only" in complaint
        or "unable to open" in complaint
        or "permission denied" in complaint
    ):
        return Unreachable(
            f"{shown}: {complaint}",
            hint="batchcast doctor shows its owner; run this as the owner, or name another --store",
        )
    if "authentication failed" in complaint or "no password" in complaint:
        return Unreachable(
            f"{shown}: {complaint}", hint="the user in the URL, and the password in ~/.pgpass, PGPASSWORD or the URL"
        )
    kind = Unreachable if away else BatchcastError
    return kind(f"{shown}: {complaint}", hint="batchcast doctor checks the store")


def clock_path(store: str, cluster: str) -> Path:
    """The file of a cluster's clock: beside an SQLite store; of another store where one would lie.

    >>> clock_path("/var/lib/batchcast/store.db", "big one").name
    'store.db.big_one.clock'
    """
    path = sqlite_path(store)
    if path is None:
        name = hashlib.sha256(shown_url(store).encode()).hexdigest()[:12]
        path = default_store(os.environ).with_name(f"postgresql-{name}")
    return path.with_name(f"{path.name}.{re.sub(r'[^A-Za-z0-9-]', '_', cluster)}.clock")


def machine_path(store: str, cluster: str) -> Path:
    """The file of the machine that the collector captured: beside the clock.

    >>> machine_path("/var/lib/batchcast/store.db", "big").name
    'store.db.big.machine.toml'
    """
    return clock_path(store, cluster).with_suffix(".machine.toml")


def asked_path(store: str, cluster: str) -> Path:
    """The file of what `start --test` was asked lately: beside the clock."""
    return clock_path(store, cluster).with_suffix(".asked.jsonl")
