# SPDX-License-Identifier: Apache-2.0
"""The stream of events, the order of events at one instant, and the resulting state of queue and machine."""
