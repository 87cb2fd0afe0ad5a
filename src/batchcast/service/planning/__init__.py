# SPDX-License-Identifier: Apache-2.0
"""Acts on Slurm: reads the queue, changes limits, writes comments, audits. `batchcast.planning` decides."""
