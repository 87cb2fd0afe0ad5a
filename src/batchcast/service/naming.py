"""May results of a log name its users on this machine? As the site's setting `private` says; in doubt they may not."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from ..errors import BatchcastError
from .settings import default_store, files, load


def are_users_hidden(environment: Mapping[str, str] | None = None) -> tuple[bool, str]:
    """Whether results here may name no user, and the reason where that could only be supposed (else empty).

    `auto` asks what the collector has learned of every cluster in the store: one that hides jobs hides the users of all
    logs, since nobody can tell which cluster a log came from. Settings or a store that cannot be read, or a store that
    does not say, hide them too: a name once shown stays shown. Where there is neither a setting nor a store nobody
    runs batchcast for a site, and a log's users are named as the log names them.

    >>> are_users_hidden({"BATCHCAST_PRIVATE": "no"}), are_users_hidden({"BATCHCAST_PRIVATE": "yes"})
    ((False, ''), (True, ''))
    """
    env = os.environ if environment is None else environment
    if not _is_site(env):
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


def _is_site(env: Mapping[str, str]) -> bool:
    """Whether batchcast is set up here: a file of settings, a setting that bears on this, or a store."""
    if files(env) or any(f"BATCHCAST_{name}" in env for name in ("PRIVATE", "STORE")):
        return True
    try:
        return default_store(env).exists()
    except OSError:  # closed to this user, and there
        return True


def _as_the_store_says(store: str) -> tuple[bool, str]:
    from ..store.reader import Reader

    with closing(Reader(store)) as reader:
        sites: list[Mapping[str, Any]] = [reader.memory(name).get("site", {}) for name in reader.clusters()]
    if any(site.get("private", False) for site in sites):
        return True, ""
    unknown = not sites or any("private" not in site for site in sites)
    return unknown, "private = auto, and the store does not say what its cluster hides" if unknown else ""
