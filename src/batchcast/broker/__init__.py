# SPDX-License-Identifier: Apache-2.0
"""The broker: assigns jobs with files and deadlines to resources or clusters as the jobs arrive."""
