# SPDX-License-Identifier: Apache-2.0
"""Finished jobs weighed by a learned likeness: compiled functions on arrays, behind the predictor `kernel`."""
