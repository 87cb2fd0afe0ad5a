# SPDX-License-Identifier: Apache-2.0
"""What PBS Pro, OpenPBS and Torque print, as columns and sightings. Pure."""
