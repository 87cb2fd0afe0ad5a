"""Compiled kernels on arrays: passes, orders, corrections, profiles."""
