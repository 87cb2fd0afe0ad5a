# SPDX-License-Identifier: Apache-2.0
"""History and issued forecasts in SQL."""
