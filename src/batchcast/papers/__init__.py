# SPDX-License-Identifier: Apache-2.0
"""Reproductions of published experiments: one folder a paper, its protocol, its study, its tables and page.

Nothing imports this room but the verb `reproduce`.
"""
