# SPDX-License-Identifier: Apache-2.0
"""Bearer tokens for the HTTP API. The store has only the digest, the user and the expiry of a token.

A token has 256 random bits, so a plain SHA-256 without salt is safe. (Slow hashes are needed for passwords, which
people choose.) Checking a token does not load SQLAlchemy; issuing and revoking do.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import UsageError

if TYPE_CHECKING:
    from sqlalchemy import Connection

ID_BYTES, SECRET_BYTES = 4, 32
PREFIX = "bct"
_TOKEN = re.compile(rf"{PREFIX}_([0-9a-f]{{{2 * ID_BYTES}}})_([0-9a-f]{{{2 * SECRET_BYTES}}})")


def token_of(random: bytes) -> str:
    """Return the text of a token made from random bytes.

    >>> token_of(bytes(36))[:16]
    'bct_00000000_000'
    """
    if len(random) != ID_BYTES + SECRET_BYTES:
        raise UsageError(f"a token takes {ID_BYTES + SECRET_BYTES} random bytes, not {len(random)}")
    return f"{PREFIX}_{random[:ID_BYTES].hex()}_{random[ID_BYTES:].hex()}"


def id_of(token: str) -> str | None:
    """Return the public id of a token; None if the text is not a token.

    >>> id_of(token_of(bytes(36))), id_of("bct_1_2")
    ('00000000', None)
    """
    match = _TOKEN.fullmatch(token)
    return match[1] if match else None


def digest_of(token: str) -> str:
    """Return the digest of a token, which the store keeps."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def user_of(token_rows: Mapping[str, Mapping[str, Any]], token: str, now: float) -> str | None:
    """Return the user of a token; None if the token is unknown, revoked or expired.

    >>> row = {"digest": digest_of(token_of(bytes(36))), "user_id": "ada", "expires": 20.0, "revoked": None}
    >>> user_of({"00000000": row}, token_of(bytes(36)), 10.0), user_of({"00000000": row}, token_of(bytes(36)), 20.0)
    ('ada', None)
    """
    row = token_rows.get(id_of(token) or "")
    # A comparison in constant time does not reveal how many characters of a guess are right.
    if row is None or not hmac.compare_digest(row["digest"], digest_of(token)):
        return None
    return str(row["user_id"]) if state_of(row, now) == "valid" else None


def state_of(row: Mapping[str, Any], now: float) -> str:
    """Return the state of a token: `valid`, `revoked` or `expired`."""
    return "revoked" if row["revoked"] is not None else "expired" if row["expires"] <= now else "valid"


def issue(connection: Connection, random: bytes, user: str, label: str, now: float, until: float) -> str:
    """Store a new token, valid from `now` to `until` (epoch seconds), and return its text, shown only once."""
    from .schema import tokens

    token = token_of(random)
    row = {"id": id_of(token), "user_id": user, "label": label, "digest": digest_of(token), "created": now}
    connection.execute(tokens.insert().values(**row, expires=until))
    return token


def revoke(connection: Connection, ids: Sequence[str], now: float) -> list[str]:
    """Revoke tokens, and return the ids of those that were not revoked before; if an id is unknown, raise UsageError
    and revoke none."""
    from .schema import tokens

    revoked = {row.id: row.revoked for row in connection.execute(tokens.select().where(tokens.c.id.in_(ids)))}
    if unknown := [one for one in ids if one not in revoked]:
        raise UsageError(f"there is no token {unknown[0]!r}", hint="batchcast site token list shows the ids")
    unrevoked = [one for one in ids if revoked[one] is None]
    connection.execute(tokens.update().where(tokens.c.id.in_(unrevoked)).values(revoked=now))
    return unrevoked
