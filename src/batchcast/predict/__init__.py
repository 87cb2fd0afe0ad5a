"""Predictors of run time and wait behind one protocol."""
