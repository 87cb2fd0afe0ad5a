"""`python -m batchcast`."""

from __future__ import annotations

from .cli.main import entry

if __name__ == "__main__":
    entry()
