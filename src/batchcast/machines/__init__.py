# SPDX-License-Identifier: Apache-2.0
"""A machine with nodes (`machine`), what a job requests of it (`request`), and the machine as TOML (`toml`)."""
