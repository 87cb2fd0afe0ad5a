# SPDX-License-Identifier: Apache-2.0
"""A machine with nodes (`machine`), a job's request on this machine (`request`), and machines in TOML (`toml`)."""
