# SPDX-License-Identifier: Apache-2.0
"""Results of the Python API: one function per question. A result can be printed, drawn and converted to a frame.

The functions return what the verbs `runtime`, `wait`, `limits`, `whatif` and `compare` print.
"""
