# SPDX-License-Identifier: Apache-2.0
"""Planning acts on Slurm here: looks, changes limits, writes comments, audits; `batchcast.planning` decides."""
