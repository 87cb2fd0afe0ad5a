# SPDX-License-Identifier: Apache-2.0
"""Readers and writers of log formats. The modules convert text and bytes to columns and back; they do not open
files."""

from ..plug_ins import installed

READERS = {
    "swf": "formats.swf",
    "parquet": "formats.parquet",
    "pbs": "formats.pbs.accounting",
    "sacct": "formats.slurm.sacct",
    "csv": "trace.column_maps",
    "nextflow": "formats.nextflow",
    "batsim": "formats.batsim",
}
"""The module of each log format, with the functions of a reader (`reader.Reader`). A log's content is compared with the
formats in this order, which is also the order of their modules' loading times.
"""


def format_names() -> tuple[str, ...]:
    """Return the names of all log formats that can be read: batchcast's own, and then those of installed packages."""
    return tuple(dict.fromkeys([*READERS, *installed("format")]))
