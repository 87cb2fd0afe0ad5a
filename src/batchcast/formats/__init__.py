# SPDX-License-Identifier: Apache-2.0
"""Text and bytes to tables, without opening anything."""
