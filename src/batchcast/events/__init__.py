# SPDX-License-Identifier: Apache-2.0
"""One stream of events: what happened, in which order, and the state it leaves."""
