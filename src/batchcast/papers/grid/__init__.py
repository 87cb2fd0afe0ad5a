# SPDX-License-Identifier: Apache-2.0
"""Hao, Lu, Liu & Wen 2014: grid jobs with files and deadlines."""
