# SPDX-License-Identifier: Apache-2.0
"""Several clusters: where a job finishes first, what is sent where, and what came of it."""
