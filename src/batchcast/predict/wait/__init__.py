# SPDX-License-Identifier: Apache-2.0
"""Wait predictors, one file each."""
