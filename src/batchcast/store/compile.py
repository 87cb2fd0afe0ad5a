# SPDX-License-Identifier: Apache-2.0
"""Writes `compiled.py`: the statements of `statements.py` and the tables as text.  python -m batchcast.store.compile"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sqlalchemy import Select, Table
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateTable

from .schema import metadata
from .statements import STATEMENTS

PLACE = Path(__file__).with_name("compiled.py")
_HEAD = '''# SPDX-License-Identifier: Apache-2.0
"""Written from statements.py by `python -m batchcast.store.compile`, held current by a test: do not edit."""

# fmt: off
# ruff: noqa: E501
'''


def text_of(statement: Select[Any]) -> str:
    """A statement as text that SQLite and PostgreSQL both understand: values named `:name`, constants written out."""
    compiled = statement.compile(
        dialect=sqlite.dialect(paramstyle="named"), compile_kwargs={"render_postcompile": True}
    )
    constants = {name: value for name, value in compiled.params.items() if value is not None}

    def written(match: re.Match[str]) -> str:
        value = constants.get(match[1], match[0])
        return f"'{value}'" if match[1] in constants and isinstance(value, str) else str(value)

    return re.sub(r"(?<!:):([a-z_]\w*)", written, " ".join(str(compiled).split()))


def source() -> str:
    """The text of `compiled.py`."""
    lines = "".join(f"    {name!r}:\n        {text_of(one)!r},\n" for name, one in STATEMENTS.items())
    tables = "".join(f"    {table_text(table)!r},\n" for table in metadata.sorted_tables)
    return f"{_HEAD}TEXTS: dict[str, str] = {{\n{lines}}}\nTABLES: tuple[str, ...] = (\n{tables})\n"


def table_text(table: Table) -> str:
    """What makes a table in SQLite."""
    return " ".join(str(CreateTable(table).compile(dialect=sqlite.dialect())).split())


if __name__ == "__main__":
    PLACE.write_text(source(), encoding="utf-8")
