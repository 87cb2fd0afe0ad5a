# SPDX-License-Identifier: Apache-2.0
"""One call a question, and a result that can be drawn, taken as a frame or shown in a notebook.

What the verbs `runtime`, `wait`, `limits`, `whatif` and `compare` print is here for Python.
"""
