"""From one version of the tables to the next, and back as far as an older batchcast can follow."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, case, delete, func, inspect, select, text

from ..errors import BatchcastError
from .issued import NOTHING, UNSTATED
from .schema import FORECAST_OUTCOMES, OPEN_LAST, forecasts, plan_changes, planned, renewed, tokens

MIGRATIONS: dict[int, Callable[[Connection], None]] = {}
"""Version n: how a store of version n becomes one of n + 1, each in a transaction of its own."""


def migration(version: int) -> Callable[[Callable[[Connection], None]], Callable[[Connection], None]]:
    """Registers the step that leaves `version`."""

    def keep(step: Callable[[Connection], None]) -> Callable[[Connection], None]:
        MIGRATIONS[version] = step
        return step

    return keep


@migration(1)
def _add_gpus(connection: Connection) -> None:
    """Version 1 had no column for GPUs asked for and none for Slurm's pending dependency."""
    for name, kind in (("req_gpus", "DOUBLE PRECISION"), ("dependency", "TEXT")):
        connection.execute(text(f"ALTER TABLE jobs ADD COLUMN {name} {kind}"))


@migration(2)
def _derive_outcomes(connection: Connection) -> None:
    """Version 2 wrote outcomes down, which did not follow corrections, and not what the clock had told."""
    connection.execute(text("DROP INDEX IF EXISTS forecasts_unresolved"))
    # its two columns stay, unread: old SQLite drops none; the view itself is made by the last step that changes it
    for name, kind in (("told_start", "DOUBLE PRECISION"), ("told_end", "DOUBLE PRECISION"), ("told_status", "TEXT")):
        connection.execute(text(f"ALTER TABLE jobs ADD COLUMN {name} {kind}"))
    for bit, what in ((2, "told_start = start_time"), (4, "told_end = end_time, told_status = status")):
        connection.execute(text(f"UPDATE jobs SET {what} WHERE (told & {bit}) <> 0"))


@migration(3)
def _add_grounds(connection: Connection) -> None:
    """Version 3 let words say what a forecast rested on; its `basis` is read for the last time here."""
    connection.execute(text("DROP VIEW IF EXISTS forecast_outcomes"))
    connection.execute(text("ALTER TABLE forecasts ADD COLUMN grounds TEXT"))
    rested = case((forecasts.c.basis.like("no history%"), NOTHING), else_=UNSTATED)
    connection.execute(forecasts.update().values(grounds=rested))


@migration(4)
def _add_waits(connection: Connection) -> None:
    """Version 4 did not keep which reservation and which licences a job waits for."""
    for name in ("reservation", "licenses"):
        connection.execute(text(f"ALTER TABLE jobs ADD COLUMN {name} TEXT"))


@migration(5)
def _index_raw_ids(connection: Connection) -> None:
    """Version 5 went over every job to find one by its raw id."""
    connection.execute(text("CREATE INDEX IF NOT EXISTS jobs_raw ON jobs (raw_id, cluster)"))


@migration(6)
def _add_memory(connection: Connection) -> None:
    """Version 6 knew nothing of the memory that jobs used, nor of forecasts of it."""
    connection.execute(text("DROP VIEW IF EXISTS forecast_outcomes"))
    for name, kind in (("used_mem_kib", "DOUBLE PRECISION"), ("unmeasured", "TEXT")):
        connection.execute(text(f"ALTER TABLE jobs ADD COLUMN {name} {kind}"))
    for words in (*OPEN_LAST, FORECAST_OUTCOMES):
        connection.execute(text(words))


@migration(7)
def _add_planning(connection: Connection) -> None:
    """Version 7 changed no job's limit, so had none to remember."""
    for table in (planned, plan_changes):
        table.create(connection, checkfirst=True)


@migration(8)
def _add_how(connection: Connection) -> None:
    """Version 8 planned by limits alone."""
    if "how" not in {column["name"] for column in inspect(connection).get_columns("planned")}:
        connection.execute(text("ALTER TABLE planned ADD COLUMN how TEXT NOT NULL DEFAULT 'limit'"))


@migration(9)
def _add_tokens(connection: Connection) -> None:
    """Version 9 knew who asks by the connection alone."""
    tokens.create(connection, checkfirst=True)


@migration(10)
def _add_renewed(connection: Connection) -> None:
    """Version 10 answered whoever waits from the forecast of the submission alone."""
    renewed.create(connection, checkfirst=True)


_WHILE_WAITING = forecasts.c.moment.like("waited%")

LEAST = 8
"""The oldest version there is a way back to."""
BACK: dict[int, Callable[[Connection], None]] = {
    11: lambda connection: _without_renewed(connection),
    10: lambda connection: tokens.drop(connection, checkfirst=True),
    9: lambda connection: _without_how(connection),
}
"""Version n: how a store of version n becomes one of n - 1, each in a transaction of its own."""


def check_back(connection: Connection, version: int, to: int) -> list[str]:
    """What going back loses. BatchcastError where the older batchcast would misread what stands here."""
    lost = []
    kept = select(func.count()).select_from(forecasts).where(_WHILE_WAITING)
    if to < 11 <= version and (count := connection.scalar(kept)):
        lost.append(f"{count} forecasts of jobs that had waited: accuracy will be without them")
    if to < 10 <= version and (count := connection.scalar(select(func.count()).select_from(tokens))):
        lost.append(f"{count} tokens: issue them anew once this version is back")
    if to < 9 <= version:
        others = connection.scalar(select(func.count()).select_from(planned).where(planned.c.how != "limit"))
        if others:
            raise BatchcastError(
                f"{others} jobs are planned by their least time, which version {to} would take for a limit",
                hint="batchcast plan --off, and once it says that none is left, this again",
            )
    return lost


def _without_how(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE planned DROP COLUMN how"))


def _without_renewed(connection: Connection) -> None:
    """The older batchcast knows no forecasts but those of submissions and of Slurm's first estimates."""
    connection.execute(delete(forecasts).where(_WHILE_WAITING))
    renewed.drop(connection, checkfirst=True)
