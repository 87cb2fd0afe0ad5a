"""Finished jobs weighed by a learned likeness: compiled functions on arrays, behind the predictor `kernel`."""
