# SPDX-License-Identifier: Apache-2.0
"""Bearer tokens: whose, until when, a digest. The token itself is shown once and kept nowhere.

A token is 256 random bits, so a plain SHA-256 of it gives nothing away and needs no salt (hashes of passwords are slow
because people choose passwords). Who asks over HTTP is told without SQLAlchemy; only to issue and revoke load it.
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


def issue(connection: Connection, random: bytes, user: str, label: str, now: float, until: float) -> str:
    """Keep a new token of `user`, until `until` (epoch, s), and return its text: nobody can read it again."""
    from sqlalchemy import insert

    from .schema import tokens

    token = token_of(random)
    row = {"id": id_of(token), "user_id": user, "label": label, "digest": digest_of(token), "created": now}
    connection.execute(insert(tokens).values(**row, expires=until))
    return token


def revoke(connection: Connection, ids: Sequence[str], now: float) -> list[str]:
    """Let tokens count no longer; the ids of those that still did. UsageError for an unknown id: nothing changes."""
    from sqlalchemy import select, update

    from .schema import tokens

    known = set(connection.scalars(select(tokens.c.id).where(tokens.c.id.in_(ids))))
    if strange := [one for one in ids if one not in known]:
        raise UsageError(f"no token {strange[0]!r}", hint="batchcast site token list shows their ids")
    counted = set(connection.scalars(select(tokens.c.id).where(tokens.c.id.in_(ids), tokens.c.revoked.is_(None))))
    connection.execute(update(tokens).where(tokens.c.id.in_(sorted(counted))).values(revoked=now))
    return [one for one in ids if one in counted]
