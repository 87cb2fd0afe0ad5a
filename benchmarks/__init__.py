"""Measurements; a command prints each of them.

`python -m benchmarks [NAME ...]` runs the timings in `speed/`, each module by its `run()`. The other modules are
experiments with a command of their own, shown at the top of each: `planning/` time limits and queue order, `waits/`
wait predictions, `machines/` the simulated Slurm against records, `policy/` policies and their differences, `service/`
the service beside a live Slurm.
"""
