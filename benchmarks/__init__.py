"""What was measured, by the command that prints it.

`python -m benchmarks [NAME ...]` runs what `speed/` times, each module by its `run()`. The other modules are
experiments with a command of their own, which their first lines show: `planning/` limits and the order, `waits/` their
forecasts, `machines/` the simulated Slurm beside records, `policy/` policies and their differences, `service/` what
runs beside a live Slurm.
"""
