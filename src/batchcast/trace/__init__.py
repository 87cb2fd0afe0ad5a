# SPDX-License-Identifier: Apache-2.0
"""Open job logs: read, write, select and clean logs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .clean import clean
from .read import read_trace
from .select import Selection, select, selection_mask
from .source import demo_path

if TYPE_CHECKING:
    from .parquet import read_parquet, write_parquet
    from .write import write_trace

__all__ = ["Selection", "clean", "demo_path", "read_parquet", "read_trace", "select", "selection_mask", "write_parquet"]
__all__ += ["write_trace"]

_LATER = {"read_parquet": ".parquet", "write_parquet": ".parquet", "write_trace": ".write"}
"""Names that are imported on first use, because most programs do not need them, with their modules."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(name)
    return getattr(import_module(_LATER[name], __name__), name)
