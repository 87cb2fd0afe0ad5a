"""Wait predictors, one file each."""
