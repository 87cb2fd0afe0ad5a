# SPDX-License-Identifier: Apache-2.0
"""Answers to users, from the store: starts, advice, usage, accuracy, under one rule of disclosure."""
