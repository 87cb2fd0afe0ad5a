"""A real PostgreSQL for the attacks that are repeated on it."""

from tests.unit.conftest import postgres_server

__all__ = ["postgres_server"]
