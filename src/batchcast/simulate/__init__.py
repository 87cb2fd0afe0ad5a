"""The simulated clock: a scheduler decides the starts, with predictors in the loop."""
