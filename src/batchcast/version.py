# SPDX-License-Identifier: Apache-2.0
"""The version of batchcast, in a separate module for code that must not import the whole package; also
`batchcast.__version__`."""

__version__ = "0.1.0"
