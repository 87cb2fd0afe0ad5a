# SPDX-License-Identifier: Apache-2.0
"""The text of a bearer token, and whose it is by what the store keeps of it: a digest. No database here.

A token is 256 random bits, so a plain SHA-256 of it gives nothing away and needs no salt (hashes of passwords are slow
because people choose passwords).
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Any

from ..errors import UsageError

ID_BYTES, SECRET_BYTES = 4, 32
PREFIX = "bct"
_WHOLE = re.compile(rf"{PREFIX}_([0-9a-f]{{{2 * ID_BYTES}}})_([0-9a-f]{{{2 * SECRET_BYTES}}})")


def token_of(random: bytes) -> str:
    """The text of a token from `ID_BYTES` + `SECRET_BYTES` random bytes.

    >>> token_of(bytes(36))[:16]
    'bct_00000000_000'
    """
    if len(random) != ID_BYTES + SECRET_BYTES:
        raise UsageError(f"a token takes {ID_BYTES + SECRET_BYTES} random bytes, not {len(random)}")
    return f"{PREFIX}_{random[:ID_BYTES].hex()}_{random[ID_BYTES:].hex()}"


def id_of(token: str) -> str | None:
    """The public part of a token; None for a text that is none.

    >>> id_of(token_of(bytes(36))), id_of("bct_1_2")
    ('00000000', None)
    """
    match = _WHOLE.fullmatch(token)
    return match[1] if match else None


def digest_of(token: str) -> str:
    """What the store keeps of it."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def user_of(known: Mapping[str, Mapping[str, Any]], token: str, now: float) -> str | None:
    """Whose token this is, of those `known` by id; None where it is none of them, revoked, or over at `now` (epoch, s).

    >>> row = {"digest": digest_of(token_of(bytes(36))), "user_id": "ada", "expires": 20.0, "revoked": None}
    >>> user_of({"00000000": row}, token_of(bytes(36)), 10.0), user_of({"00000000": row}, token_of(bytes(36)), 20.0)
    ('ada', None)
    """
    row = known.get(id_of(token) or "")
    if row is None or not hmac.compare_digest(row["digest"], digest_of(token)):
        return None
    return str(row["user_id"]) if state_of(row, now) == "valid" else None


def state_of(row: Mapping[str, Any], now: float) -> str:
    """valid, revoked, or expired."""
    return "revoked" if row["revoked"] is not None else "expired" if row["expires"] <= now else "valid"
