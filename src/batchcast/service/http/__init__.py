# SPDX-License-Identifier: Apache-2.0
"""The HTTP service: admission, connections, work queues, the API with its OpenAPI document, and caches in memory."""
