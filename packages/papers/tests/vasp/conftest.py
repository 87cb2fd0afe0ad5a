"""The input files of a small VASP run, which the tests of the core's readers also use."""

from tests.unit.inputs.conftest import make_potential, working_directory

__all__ = ["make_potential", "working_directory"]
