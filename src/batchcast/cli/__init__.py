# SPDX-License-Identifier: Apache-2.0
"""The command line: one module per verb, loaded when it is called."""
