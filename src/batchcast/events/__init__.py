"""One stream of events: what happened, in which order, and the state it leaves."""
