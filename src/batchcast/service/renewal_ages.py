"""How long jobs have waited when their renewed forecasts are kept to be scored. Apart: answers load this alone."""

from __future__ import annotations

SCORED = {"waited_10min": 600.0, "waited_1h": 3600.0, "waited_4h": 4 * 3600.0, "waited_1d": 86400.0}
"""Once a job has waited so long (s), its renewed forecast is kept under that moment, beside that of its submission."""
BEFORE = ", as at submission"
"""What is put after a method's name for its forecast of the submission, given the time waited."""
