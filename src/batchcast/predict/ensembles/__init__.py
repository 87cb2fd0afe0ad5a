# SPDX-License-Identifier: Apache-2.0
"""Run time learnt from a job's feature columns: the parts that irpa, brbf and their baselines share."""
