"""Opens logs: read, write, select, clean."""

from .clean import clean
from .machine import peak_procs
from .read import read_trace
from .select import Selection, select, selection_mask

__all__ = ["Selection", "clean", "peak_procs", "read_trace", "select", "selection_mask"]
