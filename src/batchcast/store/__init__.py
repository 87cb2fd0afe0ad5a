"""History and issued forecasts in SQL."""
