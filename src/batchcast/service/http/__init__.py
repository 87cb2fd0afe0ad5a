# SPDX-License-Identifier: Apache-2.0
"""The HTTP service: admission, connections, work queues, the API with its description, what is held in memory."""
