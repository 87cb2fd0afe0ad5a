# SPDX-License-Identifier: Apache-2.0
"""Kumar & Vadhiyar 2012: queue waits, quick starters found in near, mid and far history."""
