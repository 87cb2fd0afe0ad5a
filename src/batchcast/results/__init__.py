# SPDX-License-Identifier: Apache-2.0
"""Results of the Python API: one function per question. A result can be printed, drawn and converted to a data frame.

The functions return the results that the commands `runtime`, `wait`, `limits`, `whatif` and `compare` print.
"""
