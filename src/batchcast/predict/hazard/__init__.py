# SPDX-License-Identifier: Apache-2.0
"""The hazard of starting: what a waiting job sees, the model of when it starts, and the answer read off it."""
