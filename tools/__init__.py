"""Programs for contributors: the generated reference, the wheel's smoke test. Not part of the package."""
