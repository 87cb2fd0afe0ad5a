"""Run-time predictors, one file each."""
