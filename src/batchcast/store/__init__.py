# SPDX-License-Identifier: Apache-2.0
"""The job history and the issued predictions, in an SQL database."""
