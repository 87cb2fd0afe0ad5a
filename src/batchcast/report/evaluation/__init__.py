# SPDX-License-Identifier: Apache-2.0
"""The page of an evaluation: its sections, figures and sentences, and the folder that it is written to."""
