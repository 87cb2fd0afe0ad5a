"""The hazard of starting: what a waiting job sees of the state, the model of when it starts, and the answer read off."""
