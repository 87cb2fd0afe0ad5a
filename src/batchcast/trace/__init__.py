"""Opens logs: read, write, select, clean."""

from .clean import clean
from .machine import peak_procs
from .parquet import read_parquet, write_parquet
from .read import read_trace
from .select import Selection, select, selection_mask

__all__ = [
    "Selection",
    "clean",
    "peak_procs",
    "read_parquet",
    "read_trace",
    "select",
    "selection_mask",
    "write_parquet",
]
