# SPDX-License-Identifier: Apache-2.0
"""Opens logs: read, write, select, clean."""

from typing import TYPE_CHECKING, Any

from ..table.arrow import from_arrow, to_arrow
from .clean import clean
from .implied.machine import partition_sizes, peak_procs
from .parquet import read_parquet, write_parquet
from .read import read_trace
from .select import Selection, select, selection_mask
from .write import write_trace

if TYPE_CHECKING:
    from .demo import demo_path

__all__ = [
    "Selection",
    "clean",
    "demo_path",
    "from_arrow",
    "partition_sizes",
    "peak_procs",
    "read_parquet",
    "read_trace",
    "select",
    "selection_mask",
    "to_arrow",
    "write_parquet",
    "write_trace",
]


def __getattr__(name: str) -> Any:
    if name == "demo_path":  # its module brings the simulator
        from .demo import demo_path

        return demo_path
    raise AttributeError(name)
