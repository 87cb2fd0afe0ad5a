"""Verbs of single papers: reproductions, grids, VASP."""
