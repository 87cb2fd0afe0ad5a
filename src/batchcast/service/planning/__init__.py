"""Planning acts on Slurm here: looks, changes limits, writes comments, audits; `batchcast.planning` decides."""
