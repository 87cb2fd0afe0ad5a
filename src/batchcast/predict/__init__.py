# SPDX-License-Identifier: Apache-2.0
"""Predictors of run time and wait behind one protocol."""
