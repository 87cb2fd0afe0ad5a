# SPDX-License-Identifier: Apache-2.0
"""Accuracy, waits and schedule quality: pure functions on arrays."""
