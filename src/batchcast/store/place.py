# SPDX-License-Identifier: Apache-2.0
"""Finds the settings and the store, and turns database errors into messages with advice, without loading SQLAlchemy."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from ..errors import BatchcastError, InputError, NoStore, Unreachable

OLDEST, VERSION = 9, 13
"""Schema versions: the oldest that can be migrated, and the current one. `database.py` has the migrations."""
OPEN_PARAMETERS = frozenset({"host", "hostaddr", "port", "dbname", "connect_timeout", "application_name", "sslmode"})
RESTORE = (
    "restore a backup, or move the file away and start batchcast collect, which restores the history from accounting"
)
_ACCEPTED = "a path, sqlite:///path, postgresql://user@host/name"


def settings_files(env: Mapping[str, str]) -> list[Path]:
    """Return the existing settings files, the file with the lowest priority first."""
    # BATCHCAST_CONFIG names a file that replaces all others. A personal file that this process cannot read is left out,
    # because the home directory belongs to another user.
    if env.get("BATCHCAST_CONFIG"):
        return [Path(env["BATCHCAST_CONFIG"])]
    home = Path(env.get("XDG_CONFIG_HOME") or Path(env.get("HOME", "/")) / ".config")
    own = home / "batchcast" / "batchcast.toml"
    site = Path("/etc/batchcast/batchcast.toml")
    return [path for path, there in ((site, site.exists()), (own, os.access(own, os.R_OK))) if there]


def default_store(env: Mapping[str, str]) -> Path:
    """Return the path of the site's store if the site has one; else the path of the user's own store."""
    shared = Path("/var/lib/batchcast/store.db")
    try:
        is_shared = shared.exists() or os.access(shared.parent, os.W_OK)  # the collector's unit creates the directory
    except PermissionError:  # the store exists but this user cannot read it; the service answers instead
        is_shared = True
    home = Path(env.get("XDG_DATA_HOME") or Path(env.get("HOME", "/")) / ".local" / "share")
    return shared if is_shared else home / "batchcast" / "store.db"


def is_site(env: Mapping[str, str]) -> bool:
    """Return whether batchcast is set up on this machine: by a settings file, a setting about the store, or a store."""
    if settings_files(env) or any(f"BATCHCAST_{name}" in env for name in ("PRIVATE", "STORE")):
        return True
    try:
        return default_store(env).exists()
    except OSError:  # the store exists, but this user cannot read it
        return True


def normal_url(url: str) -> str:
    """Normalise the URL of a store: a path becomes an SQLite URL, and PostgreSQL URLs name the psycopg driver.

    >>> normal_url("/var/lib/batchcast/store.db"), normal_url("postgresql://h/db")
    ('sqlite:////var/lib/batchcast/store.db', 'postgresql+psycopg://h/db')
    """
    if "://" not in url:
        return f"sqlite:///{os.path.abspath(url)}"
    scheme, rest = url.split("://", 1)
    if scheme == "sqlite" and rest.startswith("/"):
        return url
    if scheme not in ("postgres", "postgresql", "postgresql+psycopg"):
        raise InputError(f"a store cannot have a URL with {scheme}:// (accepted: {_ACCEPTED})")
    try:
        _ = urlsplit(url).port
    except ValueError as error:
        raise InputError(f"{shown_url(url)}: {error} (accepted: {_ACCEPTED})") from None
    return f"postgresql+psycopg://{rest}"


def sqlite_path(url: str) -> Path | None:
    """Return the file of an SQLite store; None for other stores."""
    normal = normal_url(url)
    return Path(normal.removeprefix("sqlite:///")) if normal.startswith("sqlite:///") else None


def shown_url(url: str) -> str:
    """Return the URL or path without secrets, for messages: only host, port and database.

    >>> shown_url("postgresql://ada:secret@db:5433/jobs?password=secret&sslkey=/k&connect_timeout=5")
    'postgresql://db:5433/jobs'
    """
    if url.startswith("sqlite:///") or "://" not in url:
        return os.path.abspath(url.removeprefix("sqlite:///"))
    scheme, _, rest = url.partition("://")
    where = rest.partition("?")[0].partition("#")[0].rpartition("@")[2]
    host = dict(parse_qsl(rest.partition("?")[2])).get("host", "")  # the host is not secret; often a socket's directory
    return f"{scheme.partition('+')[0]}://{where}" + (f"?host={host}" if host and "@" not in host else "")


def without_secrets(text: str, url: str) -> str:
    """Remove the secrets of the URL from a message of the database: user, password and secret parameters."""
    if "://" not in url or url.startswith("sqlite:"):
        return text
    rest = url.partition("://")[2]
    who = rest.partition("?")[0].rpartition("@")[0]
    user, _, password = who.partition(":")
    given = [v for k, v in parse_qsl(rest.partition("?")[2]) if k not in OPEN_PARAMETERS]
    secrets = {unquote(word) for word in (password, user)} | {password, user, *given}
    # The longest secret comes first, because a secret can contain another one.
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", "***", text)
    return text


def version_number(text: str | None, store: str) -> int:
    """Return the schema version that is recorded in a store; InputError if the recorded text is not a number.

    >>> version_number("13", "store.db"), version_number(None, "store.db")
    (13, 1)
    """
    if not text:
        return 1
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InputError(f"{store}: the stored value 'schema_version' is damaged: {text[:40]!r}", hint=RESTORE)
    return int(text)


def check_version(store: str, version: int, oldest: int = 0) -> None:
    """Raise BatchcastError if a newer batchcast wrote the store, or if its version is below `oldest`, so that it cannot
    be migrated. Nothing in the store is changed."""
    has = f"{store} has schema version {version}, but this batchcast"
    if version > VERSION:
        raise BatchcastError(
            f"{has} supports only versions up to {VERSION}",
            hint="use the batchcast that wrote it or a newer one, or restore the backup from before the update",
        )
    if version < oldest:
        raise BatchcastError(
            f"{has} can migrate only versions from {oldest}",
            hint="if the old batchcast plans, run its `batchcast plan --off` first; then move the store away and "
            "start batchcast collect, which restores the history from accounting, but not issued forecasts",
        )


def check_there(path: Path) -> None:
    """Raise NoStore if the file of a store does not exist, Unreachable if this user cannot access it, and InputError if
    it is a directory."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        hint = "batchcast collect creates it; batchcast doctor shows the path"
        raise NoStore(f"there is no store at {path}", hint=hint) from None
    except OSError as error:
        hint = "ask its owner for access, or name another --store"
        raise Unreachable(f"{path} cannot be accessed: {error.strerror}", hint=hint) from None
    _refuse_directory(path)


def _refuse_directory(path: Path) -> None:
    if path.is_dir():
        raise InputError(f"{path} is a directory", hint=f"name the file in it: --store {path}/store.db")


def mode_of(url: str) -> int:
    """Return the permission bits of a store's file; for a database without a file, the bits of a private file."""
    path = sqlite_path(url)
    return 0o600 if path is None else path.stat().st_mode & 0o777


OTHER_USERS = 0o077
"""The permission bits of the group and of others."""


def is_open(url: str) -> bool:
    """Return whether other users can read or write the file of a store; False for a database without a file."""
    return bool(mode_of(url) & OTHER_USERS)


def close_to_others(url: str) -> bool:
    """Remove all permissions of other users from an SQLite store and its -wal and -shm files; return whether other
    users had any permission."""
    opened = [path for path in _files(url) if path.stat().st_mode & OTHER_USERS]
    for path in opened:
        path.chmod(path.stat().st_mode & 0o777 & ~OTHER_USERS)
    return bool(opened)


def _files(url: str) -> list[Path]:
    """Return the existing files of an SQLite store."""
    path = sqlite_path(url)
    files = [path.with_name(path.name + end) for end in ("", "-wal", "-shm")] if path is not None else []
    return [one for one in files if one.exists()]


def open_to_others(url: str) -> None:
    """Give other users the permissions that the umask allows, on a site that does not hide jobs."""
    # The umask can only be read by setting it.
    mask = os.umask(0)
    os.umask(mask)
    for one in _files(url):
        one.chmod(0o666 & ~mask)


def make_closed(path: Path) -> bool:
    """Create the file of a new store, and its directory, and return True; return False if the file exists.

    Only the owner has access to the new file, even before data is written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _refuse_directory(path)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        if isinstance(error, FileExistsError) and path.exists():
            return False
        hint = "name a path that this user can write to: --store PATH, or BATCHCAST_STORE"
        raise InputError(f"{path} cannot be created: {error.strerror}", hint=hint) from None
    return True


def trouble(store: str, complaint: str, *, away: bool = False, full: bool = False) -> BatchcastError:
    """Translate a database's message to one of batchcast's errors, with advice."""
    if full or re.search("database or disk is full|No space", complaint):
        hint = "free some disk space; the collector then continues by itself"
        return BatchcastError(f"the disk of {store} is full ({complaint}); nothing was written", hint=hint)
    # The two databases have no common error codes, so their messages are searched.
    for pattern, kind, what, hint in _TROUBLES:
        if re.search(pattern, complaint):
            return kind(f"{store}{what}: {complaint}", hint=hint)
    return (Unreachable if away else BatchcastError)(f"{store}: {complaint}", hint="batchcast doctor checks the store")


_TROUBLES: tuple[tuple[str, type[BatchcastError], str, str], ...] = (
    ("malformed|not a database", InputError, " is damaged, or not a store of batchcast", RESTORE),
    (
        "no such table|no such column|relation.*does not exist",
        InputError,
        " is not a store of this version of batchcast",
        "batchcast collect creates a store, and migrates an older one",
    ),
    (
        "readonly|read-only|unable to open|permission denied",
        Unreachable,
        "",
        "batchcast doctor shows its owner; run this as the owner, or name another --store",
    ),
    (
        "authentication failed|no password",
        Unreachable,
        "",
        "check the user in the URL, and the password in ~/.pgpass, PGPASSWORD or the URL",
    ),
)
"""What a database's message contains, the error to raise, its text, and its hint."""


def clock_path(store: str, cluster: str) -> Path:
    """Return the path of a cluster's clock file: beside the SQLite store, or where an SQLite store would be.

    >>> clock_path("/var/lib/batchcast/store.db", "big one").name
    'store.db.big_one.clock'
    """
    path = sqlite_path(store)
    if path is None:
        name = hashlib.sha256(shown_url(store).encode()).hexdigest()[:12]
        path = default_store(os.environ).with_name(f"postgresql-{name}")
    return path.with_name(f"{path.name}.{re.sub(r'[^A-Za-z0-9-]', '_', cluster)}.clock")


def machine_path(store: str, cluster: str) -> Path:
    """Return the path of the file with the machine that the collector captured, beside the clock file.

    >>> machine_path("/var/lib/batchcast/store.db", "big").name
    'store.db.big.machine.toml'
    """
    return clock_path(store, cluster).with_suffix(".machine.toml")


def asked_path(store: str, cluster: str) -> Path:
    """Return the path of the file with recent questions to `start --test`, beside the clock file."""
    return clock_path(store, cluster).with_suffix(".asked.jsonl")
