# SPDX-License-Identifier: Apache-2.0
"""Nearest neighbours over finished jobs, compiled: the store, the neighbour orders, the fitness, the genetic search."""
