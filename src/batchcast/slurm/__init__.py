# SPDX-License-Identifier: Apache-2.0
"""Queries to Slurm, and the transport that runs Slurm's commands, for the collector and for planning."""
