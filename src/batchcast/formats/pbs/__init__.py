# SPDX-License-Identifier: Apache-2.0
"""Output of PBS Pro, OpenPBS and Torque, converted to columns and sightings."""
