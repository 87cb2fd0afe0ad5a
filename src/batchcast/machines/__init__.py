# SPDX-License-Identifier: Apache-2.0
"""A machine with nodes (`machine`), the request of a job on such a machine (`request`), and machines as TOML
(`toml`).
"""
