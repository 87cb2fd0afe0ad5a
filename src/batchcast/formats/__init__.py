# SPDX-License-Identifier: Apache-2.0
"""Text and bytes to tables, without opening anything."""

FORMATS = ("swf", "sacct", "pbs", "csv", "parquet", "batsim", "nextflow")
"""The formats of logs that are read, as Python and the command line name them."""
