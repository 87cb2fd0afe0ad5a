# SPDX-License-Identifier: Apache-2.0
"""Similarity of finished jobs with learned weights: compiled functions on arrays, used by the predictor `kernel`."""
