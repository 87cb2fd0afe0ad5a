"""Prequential runs, comparisons and tables."""
