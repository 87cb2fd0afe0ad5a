# SPDX-License-Identifier: Apache-2.0
"""Planning with predictions: which time limits of waiting jobs are shortened, and when each limit is restored. Pure."""
