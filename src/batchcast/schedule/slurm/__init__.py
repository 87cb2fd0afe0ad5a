# SPDX-License-Identifier: Apache-2.0
"""Slurm's scheduler as compiled kernels: placement, the main loop, backfill, priorities and limits."""
