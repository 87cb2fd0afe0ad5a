"""Benchmarks: each module named bench_* has `run()`, which prints a table. `python -m benchmarks [NAME ...]`."""
