"""What was measured, by the command that prints it.

`python -m benchmarks [NAME ...]` runs what `speed/` times, each module by its `run()`. The other modules are
experiments with a command of their own: `python -m benchmarks.looks --help`.
"""
