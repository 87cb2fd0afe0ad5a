# SPDX-License-Identifier: Apache-2.0
"""Answers to users from the store: starts, advice, usage and accuracy, under one set of privacy rules."""
