# SPDX-License-Identifier: Apache-2.0
"""Grids of resources: jobs with deadlines and data, and the heuristics that map them."""
