"""The list of jobs that may stand on a planned limit, for the script that gives limits back when jobs start. Pure.

One line a job, as `units/batchcast-start` reads it: its id, the planned limit as `scontrol show job` writes it, the
user's in minutes. The script changes a limit only where the planned one still holds: a list that is out of date does
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from .record import Entry, State
from .terms import How

MAY_STAND = (State.INTENDED, State.PLANNED, State.RESTORING)


def start_list(entries: Iterable[Entry]) -> str:
    """The lines, in order of the ids; jobs planned by --time-min are not among them, whose limit Slurm itself lowers.

    >>> entries = [Entry("7_3", 0.0, 7200.0, 5400.0, state, 0.0) for state in (State.PLANNED, State.RESTORED)]
    >>> start_list([*entries, Entry("12", 0.0, 180000.0, 90000.0, State.INTENDED, 0.0)]).splitlines()
    ['12 1-01:00:00 3000', '7_3 01:30:00 120']
    """
    rows = sorted((e for e in entries if e.state in MAY_STAND and e.how is How.LIMIT), key=lambda e: e.job_id)
    return "".join(f"{e.job_id} {_shown(e.planned)} {e.user_limit / 60:.0f}\n" for e in rows)


def _shown(limit: float) -> str:
    """A limit as Slurm shows it: [days-]hours:minutes:seconds.

    >>> _shown(60.0), _shown(86400.0)
    ('00:01:00', '1-00:00:00')
    """
    days, rest = divmod(round(limit), 86400)
    return (f"{days}-" if days else "") + f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
