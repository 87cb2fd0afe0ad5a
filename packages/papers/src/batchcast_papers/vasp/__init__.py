# SPDX-License-Identifier: Apache-2.0
"""VASP inputs as features of a job: pure parsers of the four input files, and a thin layer that opens directories."""
