# SPDX-License-Identifier: Apache-2.0
"""Bearer tokens in the store: whose, until when, a digest. The token itself is shown once and kept nowhere."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, insert, select, update

from ..errors import UsageError
from .schema import tokens
from .token_text import digest_of, id_of, token_of


def issue(connection: Connection, random: bytes, user: str, label: str, now: float, until: float) -> str:
    """Keep a new token of `user`, until `until` (epoch, s), and return its text: nobody can read it again."""
    token = token_of(random)
    row = {"id": id_of(token), "user_id": user, "label": label, "digest": digest_of(token), "created": now}
    connection.execute(insert(tokens).values(**row, expires=until))
    return token


def revoke(connection: Connection, ids: Sequence[str], now: float) -> list[str]:
    """Let tokens count no longer; the ids of those that still did. UsageError for an unknown id: nothing changes."""
    known = set(connection.scalars(select(tokens.c.id).where(tokens.c.id.in_(ids))))
    if strange := [one for one in ids if one not in known]:
        raise UsageError(f"no token {strange[0]!r}", hint="batchcast site token list shows their ids")
    counted = set(connection.scalars(select(tokens.c.id).where(tokens.c.id.in_(ids), tokens.c.revoked.is_(None))))
    connection.execute(update(tokens).where(tokens.c.id.in_(sorted(counted))).values(revoked=now))
    return [one for one in ids if one in counted]
