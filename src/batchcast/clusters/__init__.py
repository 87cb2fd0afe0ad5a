# SPDX-License-Identifier: Apache-2.0
"""Several clusters: compare where a job finishes first, submit it there, and judge the choices afterwards."""
