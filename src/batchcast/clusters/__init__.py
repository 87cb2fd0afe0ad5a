# SPDX-License-Identifier: Apache-2.0
"""Several clusters: compares where a job ends first, submits it there, and evaluates the choices afterwards."""
