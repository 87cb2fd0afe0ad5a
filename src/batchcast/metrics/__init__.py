# SPDX-License-Identifier: Apache-2.0
"""Measures of prediction error, wait prediction and schedule quality, as pure functions on arrays."""
