# SPDX-License-Identifier: Apache-2.0
"""Output of Slurm's commands, converted to columns, sightings and machines."""
