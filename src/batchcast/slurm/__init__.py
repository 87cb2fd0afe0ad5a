# SPDX-License-Identifier: Apache-2.0
"""Slurm behind one transport, for the live clock."""
