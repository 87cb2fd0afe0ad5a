# SPDX-License-Identifier: Apache-2.0
"""VASP inputs as features of a job: pure parsers of the four input files, and a thin layer that opens directories."""

from .collect import read_features
from .features import EXTRA_FEATURES, FEATURES, Features

__all__ = ["EXTRA_FEATURES", "FEATURES", "Features", "read_features"]
