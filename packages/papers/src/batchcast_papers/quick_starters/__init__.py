# SPDX-License-Identifier: Apache-2.0
"""Kumar & Vadhiyar 2012: quick starters (jobs that start within an hour), queue waits, and the paper's baselines."""
