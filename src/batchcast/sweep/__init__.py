# SPDX-License-Identifier: Apache-2.0
"""Studies that outgrow a machine: logs x periods x replicates x predictors x policies x settings, declared once.

A folder of results is one line away, as polars or pandas: ``results("study-results").to_pandas()``.
"""

from .compare import read_sweep
from .dataset import results
from .study import Study, read_study
from .task import Task, tasks_of

__all__ = ["Study", "Task", "read_study", "read_sweep", "results", "tasks_of"]
