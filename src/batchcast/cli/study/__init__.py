# SPDX-License-Identifier: Apache-2.0
"""Verbs that study a log."""
