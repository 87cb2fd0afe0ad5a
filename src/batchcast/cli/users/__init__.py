# SPDX-License-Identifier: Apache-2.0
"""Verbs for users of a cluster."""
