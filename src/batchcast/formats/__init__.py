# SPDX-License-Identifier: Apache-2.0
"""Readers and writers of log formats. The modules convert text and bytes to columns and back; they do not open
files."""

FORMATS = ("swf", "sacct", "pbs", "csv", "parquet", "batsim", "nextflow")
"""Names of the log formats that batchcast reads, in Python and on the command line."""
