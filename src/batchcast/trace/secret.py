"""The key of `anonymize`: in a file that only its owner may read, made when it is not there, or in the environment."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from ..errors import InputError, UsageError

SHORTEST = 16
_BYTES = 32


def key_of(path: str | Path) -> tuple[bytes, list[str]]:
    """The key in a file, and what should be said: that it was made, or that others may read it.

    A file that is not there is made with 256 random bits as hexadecimal digits, mode 0600. Raises InputError.
    """
    target = Path(path)
    try:
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _read(target)
    except OSError as error:
        raise InputError(f"{target}: the key cannot be written: {error.strerror or error}") from None
    text = secrets.token_hex(_BYTES)
    with os.fdopen(handle, "w") as file:
        file.write(text + "\n")
    sentence = (
        f"a new key was made: {target} (only you may read it; keep it to get the same tokens again, share it never)"
    )
    return text.encode(), [sentence]


def key_in_environment(name: str) -> bytes:
    """The key in an environment variable; UsageError when it is not set or too short."""
    text = os.environ.get(name, "").strip()
    if len(text) < SHORTEST:
        words = f"of {len(text)} characters" if text else "that is not set"
        raise UsageError(f"--key-env: {name} is a variable {words} (accepted: a key of {SHORTEST} characters or more)")
    return text.encode()


def _read(target: Path) -> tuple[bytes, list[str]]:
    try:
        text = target.read_text(encoding="utf-8").strip()
        mode = target.stat().st_mode & 0o077
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{target}: the key cannot be read: {error}") from None
    if len(text) < SHORTEST:
        raise InputError(
            f"{target}: holds no key, only {len(text)} characters (accepted: {SHORTEST} or more)",
            hint="name a file that is not there, and a key is made",
        )
    return text.encode(), [f"others may read the key: chmod 600 {target}"] if mode else []
