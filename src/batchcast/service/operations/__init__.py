# SPDX-License-Identifier: Apache-2.0
"""For operators: doctor, metrics, systemd units."""
