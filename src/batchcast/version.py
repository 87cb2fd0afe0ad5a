# SPDX-License-Identifier: Apache-2.0
"""Which batchcast this is, for rooms that write it down: they lie below the package, which offers it as well."""

__version__ = "0.1.0"
