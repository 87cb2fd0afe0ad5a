"""Slurm behind one transport: the live clock."""
