# SPDX-License-Identifier: Apache-2.0
"""Compiled scheduling kernels: `schedule` simulates a policy on a pool of processors, `schedule.slurm` Slurm's loops on
nodes."""
