# SPDX-License-Identifier: Apache-2.0
"""The version of batchcast, for modules that must not import the whole package; also `batchcast.__version__`."""

__version__ = "0.1.0"
