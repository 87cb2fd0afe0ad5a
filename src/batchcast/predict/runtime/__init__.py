# SPDX-License-Identifier: Apache-2.0
"""Run-time predictors: `baselines` has six rules of few lines, every other file has one method."""
