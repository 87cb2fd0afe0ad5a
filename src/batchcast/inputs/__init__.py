# SPDX-License-Identifier: Apache-2.0
"""Features of jobs from the input files of VASP and Quantum ESPRESSO in their working directories."""
