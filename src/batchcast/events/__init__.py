# SPDX-License-Identifier: Apache-2.0
"""The stream of job events, the order of events at one instant, and the state of queue and machine that results from
the events.
"""
