# SPDX-License-Identifier: Apache-2.0
"""Large simulation studies: all combinations of logs, periods, replicates, predictors, policies and settings.

Read a study's folder of results as a data frame with ``results("study-results").to_pandas()``.
"""

from .compare import read_sweep
from .dataset import results
from .study import Study, read_study
from .task import Task, tasks_of

__all__ = ["Study", "Task", "read_study", "read_sweep", "results", "tasks_of"]
