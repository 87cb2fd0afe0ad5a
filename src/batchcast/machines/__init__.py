# SPDX-License-Identifier: Apache-2.0
"""Machines with nodes: described, read from files, learned from a log, and simulated under Slurm's two loops.

`machine` and `request` are what a machine is and what a job asks of it, `toml` its file, `files` reads it and dumps of
Slurm, `learned` makes one from a log, `loops` are Slurm's scheduler as compiled kernels, and `simulate_log` runs a log
on a machine. Each is on a floor of its own in pyproject.toml: files read, loops are called by predictors.
"""
