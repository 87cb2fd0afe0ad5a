# SPDX-License-Identifier: Apache-2.0
"""PBS behind one transport."""
