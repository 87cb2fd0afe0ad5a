# SPDX-License-Identifier: Apache-2.0
"""Compiled kernels on arrays: passes, orders, corrections, profiles."""
