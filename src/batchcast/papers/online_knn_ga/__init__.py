# SPDX-License-Identifier: Apache-2.0
"""Xu, Xiong & Xiao 2018: run times from similar jobs, tuned online by a genetic algorithm."""
