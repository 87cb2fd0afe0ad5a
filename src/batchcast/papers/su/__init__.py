# SPDX-License-Identifier: Apache-2.0
"""Wang, Dai, Yu & Dong 2021: run times from clusters of job names."""
