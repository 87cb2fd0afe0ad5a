"""Who asks by a bearer token (RFC 6750): known to the service within seconds of being issued or revoked.

The tokens of a store are few; they are held in memory and read again, in a thread, when what is held is older than
`HELD_S`. So a request with a token costs a digest, and a revoked one counts for at most so long.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import BatchcastError, Unreachable
from ..store.reader import Reader
from ..store.token_text import user_of
from .access import Asker

HELD_S = 2.0
SCHEME = "bearer"


class NotValid(BatchcastError):
    """A token that is none, or counts no longer: never answered as if it had not been given."""


def token_in(header: str | None) -> str | None:
    """The token of an Authorization header; None where there is none of this kind.

    >>> token_in("Bearer abc"), token_in("Bearer"), token_in("Basic abc"), token_in(None)
    ('abc', '', None, None)
    """
    scheme, _, token = (header or "").partition(" ")
    return token.strip() if scheme.lower() == SCHEME else None


class Bearers:
    """The tokens of one store, as of at most `HELD_S` ago. One event loop uses it; no locks but its own."""

    def __init__(self, store: Callable[[], str], now: Callable[[], float] = time.monotonic) -> None:
        self._store, self._now = store, now
        self._known: Mapping[str, Mapping[str, Any]] = {}
        self._read_at = -1e300
        self._reading = asyncio.Lock()

    async def viewer(self, token: str) -> Asker:
        """Whose token it is. A token makes nobody an operator. NotValid; Unreachable where the store cannot be read."""
        import anyio.to_thread  # a part of what only a server has installed

        if self._now() - self._read_at >= HELD_S:
            async with self._reading:
                if self._now() - self._read_at >= HELD_S:
                    self._known = await anyio.to_thread.run_sync(self._read)
                    self._read_at = self._now()
        user = user_of(self._known, token, time.time())
        if user is None:
            raise NotValid("this token is not valid (or no longer)", hint="batchcast token create, by an operator")
        return Asker(user)

    def _read(self) -> dict[str, Mapping[str, Any]]:
        try:
            reader = Reader(self._store())
            try:
                return {row["id"]: row for row in reader.ask("tokens")}
            finally:
                reader.close()
        except BatchcastError as error:
            raise Unreachable(f"tokens cannot be looked up: {error.message}", hint=error.hint) from None
