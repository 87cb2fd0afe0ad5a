"""A fixture with a real PostgreSQL on which the attacks are repeated."""

from tests.unit.conftest import postgres_server

__all__ = ["postgres_server"]
