# SPDX-License-Identifier: Apache-2.0
"""Compiled scheduling kernels: a pool of processors under a policy in this room, Slurm's loops on nodes in `slurm`."""
