# SPDX-License-Identifier: Apache-2.0
"""What Slurm's commands print, as columns, sightings and machines. Pure."""
