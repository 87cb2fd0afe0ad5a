"""Programs for contributors, such as the generated reference and the wheel's smoke test. Not part of the package."""
