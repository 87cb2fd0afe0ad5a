"""The HTTP API and the collector."""
