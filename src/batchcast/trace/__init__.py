"""Opens logs: read, write, select, clean."""

from .read import read_trace

__all__ = ["read_trace"]
