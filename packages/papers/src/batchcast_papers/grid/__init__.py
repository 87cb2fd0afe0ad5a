# SPDX-License-Identifier: Apache-2.0
"""Grid scheduling: jobs with deadlines and files, and heuristics that map them to resources."""
