# SPDX-License-Identifier: Apache-2.0
"""Xu, Xiong & Xiao 2018: predict run times from similar jobs, with parameters tuned online by a genetic algorithm."""
