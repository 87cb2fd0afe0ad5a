# SPDX-License-Identifier: Apache-2.0
"""Verbs of single papers: reproductions, grids, VASP."""
