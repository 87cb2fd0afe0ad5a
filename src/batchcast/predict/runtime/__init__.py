# SPDX-License-Identifier: Apache-2.0
"""Run-time predictors, one file each."""
