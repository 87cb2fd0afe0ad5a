# SPDX-License-Identifier: Apache-2.0
"""Verbs that turn logs into other logs."""
