# SPDX-License-Identifier: Apache-2.0
"""The stream of events, the order of events at one instant, and the state of queue and machine that follows from
them.
"""
