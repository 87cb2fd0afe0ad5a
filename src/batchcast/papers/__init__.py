"""Reproductions of published experiments: one folder a paper, its protocol, its study, its tables and page.

Nothing imports this room but the verb `reproduce`.
"""
