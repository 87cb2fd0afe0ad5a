"""The public conformance suite: hold any method to what ours pass."""
