# SPDX-License-Identifier: Apache-2.0
"""Compiled scheduling kernels: a pool of processors under a policy (this package), Slurm's loops on nodes (`slurm`)."""
