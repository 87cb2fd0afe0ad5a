"""Programs for contributors, such as the generated reference and the wheel's smoke test. These programs are not part of
the package."""
