# SPDX-License-Identifier: Apache-2.0
"""Kumar & Vadhiyar 2012: quick starters and queue waits, and the methods that the paper compares with."""
