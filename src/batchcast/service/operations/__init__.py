# SPDX-License-Identifier: Apache-2.0
"""For whoever runs the service: doctor, metrics, systemd units."""
