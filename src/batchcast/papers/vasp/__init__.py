# SPDX-License-Identifier: Apache-2.0
"""Wu et al. 2019: run time of VASP jobs from their input files, IRPA and BRBF."""
