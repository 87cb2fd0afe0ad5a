# SPDX-License-Identifier: Apache-2.0
"""Compiled kernels on arrays: a pool of processors under a policy here, Slurm's loops on nodes in `slurm`."""
