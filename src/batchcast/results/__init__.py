# SPDX-License-Identifier: Apache-2.0
"""Results of the Python API: one function a question; a result can be drawn and turned into a frame.

What the verbs `runtime`, `wait`, `limits`, `whatif` and `compare` print is here for Python.
"""
