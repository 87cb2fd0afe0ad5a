# SPDX-License-Identifier: Apache-2.0
"""Slurm behind one transport: the live clock."""
