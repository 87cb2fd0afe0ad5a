# SPDX-License-Identifier: Apache-2.0
"""Wang, Dai, Yu & Dong 2021: predict run times from clusters of job names."""
