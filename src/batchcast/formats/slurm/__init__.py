"""What Slurm's commands print, as columns, sightings and machines. Pure."""
