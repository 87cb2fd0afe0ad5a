"""Timings side by side: each module has `run()`, which prints a table."""
