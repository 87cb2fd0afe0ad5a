# SPDX-License-Identifier: Apache-2.0
"""Planning with forecasts: which limits of waiting jobs are shortened for a while, and when each goes back. Pure."""
