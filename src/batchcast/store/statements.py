# SPDX-License-Identifier: Apache-2.0
"""The SQL queries of all answers, by name, in a dialect that both SQLite and PostgreSQL understand.

`:name` is a parameter of a query. The queries are texts, because importing SQLAlchemy would cost each answer half a
second of CPU. The statements of the collector are in the modules that write to the store.
"""

from __future__ import annotations

from .. import columns as declared
from ..job import DELIVERED_GONE
from .rows import FIELDS

_LIFE = (
    "row job_id submit_time restarts eligible_time start_time end_time status open told told_start told_end told_status"
)
_WAITS_FOR = "dependency reservation licenses inputs"
_DECLARED = (*declared.REQUESTED, *declared.ALLOCATED, *declared.MEASURED)
JOB = (*_LIFE.split(), *_WAITS_FOR.split(), *(column.name for column in _DECLARED))
"""The columns of a job: its times and states, and every declared column."""


def _quoted(table: str, names: str) -> str:
    return ", ".join(f'{table}."{name}"' for name in names.split())  # quoted, because some names are SQL keywords


_JOB = _quoted("jobs", " ".join(JOB))
_PREDICTION = _quoted("forecasts", "point_s levels quantiles_s basis grounds")
_USAGE_COLUMNS = _quoted(
    "jobs",
    "user_id account partition_id job_name submit_time start_time end_time status req_time req_procs alloc_procs",
)
_CLUSTER = "jobs.cluster = :cluster"
_ENDED = "jobs.end_time >= :since AND jobs.end_time < :until AND jobs.open = 0"
_WAITS = f"{_CLUSTER} AND jobs.open = 1 AND jobs.start_time IS NULL"
_RUNS = f"{_CLUSTER} AND jobs.open = 1 AND jobs.start_time IS NOT NULL"


def _if_given(*names: str) -> str:
    """Return conditions that a column equals a value, if the value is not NULL: `:user` for the column user_id."""
    return " AND ".join(
        f"(CAST(:{name.removesuffix('_id')} AS TEXT) IS NULL OR jobs.{name} = :{name.removesuffix('_id')})"
        for name in names
    )


def _with(kind: str, method: str = " AND forecasts.method = :method") -> str:
    """Return a join with the prediction of a kind that a method issued at the job's submission."""
    return f"""LEFT JOIN forecasts ON forecasts.row = jobs.row AND forecasts.kind = '{kind}'
        AND forecasts.moment = 'submit'{method}"""


def _usage(more: str, where: str) -> str:
    """Return a query of the columns that usage figures need, by user, account or partition."""
    return f"""SELECT {_USAGE_COLUMNS}{", " * bool(more)}{_quoted("jobs", more)} FROM jobs
        WHERE {_CLUSTER} AND {_if_given("user_id", "account", "partition_id")} AND {where}"""


def _issued(more: str, where: str) -> str:
    """Return a query of predictions with their outcomes in a time span, with more columns of their jobs.

    `known_at` is the time of the outcome, NULL while there is none.
    """
    return f"""SELECT o.*, {_quoted("jobs", f"user_id {more}")},
            CASE WHEN o.resolution = 'started' THEN jobs.start_time ELSE jobs.end_time END AS known_at
        FROM forecast_outcomes o JOIN jobs ON jobs.row = o.row
        WHERE {_CLUSTER} AND {where} AND o.as_of >= :since AND o.as_of < :until AND {_if_given("partition_id")}"""


# The rows of a job by either of its ids. With UNION both queries use an index; a condition with OR would scan all jobs.
_KNOWN_AS = f"""jobs.row IN (SELECT jobs.row FROM jobs WHERE {_CLUSTER} AND jobs.job_id = :job_id
        UNION ALL SELECT jobs.row FROM jobs WHERE {_CLUSTER} AND jobs.raw_id = :job_id)"""
_LATEST = "ORDER BY jobs.submit_time DESC, jobs.row DESC LIMIT 1"
# The limit that was last set by the user or an operator. A planned limit is replaced by the user's limit.
_LIMIT_NOW = """coalesce((SELECT planned.user_limit FROM planned
        WHERE planned.cluster = jobs.cluster AND planned.job_id = jobs.job_id AND planned.state != 'foreign'
        AND planned.planned = jobs.limit_now), jobs.limit_now) AS limit_now"""
_RENEWED = ", ".join(f"renewed.{name} AS renewed_{name}" for name in (*FIELDS, "why"))
# `submit_time + 0` keeps SQLite from using the index on submit times; indexes on open jobs or users are smaller.
TEXTS: dict[str, str] = {
    "memory": "SELECT name, value FROM meta WHERE cluster = :cluster",
    "clusters": "SELECT DISTINCT cluster FROM meta WHERE cluster != '' ORDER BY cluster",
    "schema_version": "SELECT value FROM meta WHERE cluster = '' AND name = 'schema_version'",
    "waiting": f"""SELECT {_JOB}, {_quoted("jobs", "expected_start reason priority")}, {_LIMIT_NOW},
            forecasts.method, {_PREDICTION}, forecasts.as_of, {_RENEWED}
        FROM jobs {_with("wait")} LEFT JOIN renewed ON renewed.row = jobs.row AND renewed.method = :method
        WHERE {_WAITS} AND {_if_given("user_id")}
        AND (CAST(:job_id AS TEXT) IS NULL OR jobs.job_id = :job_id OR jobs.job_id LIKE :tasks ESCAPE '!')
        ORDER BY jobs.submit_time + 0, jobs.row""",
    "moves": f"""SELECT {_quoted("moves", "row as_of likely_start by_90_start")}
        FROM moves JOIN jobs ON jobs.row = moves.row
        WHERE moves.cluster = :cluster AND {_if_given("user_id")} ORDER BY moves.as_of""",
    "open_with": f"""SELECT {_JOB}, jobs.reason, jobs.priority, {_LIMIT_NOW}, min(forecasts.point_s) AS run_point_s
        FROM jobs {_with("runtime", method="")}
        WHERE {_CLUSTER} AND jobs.open = 1 AND {_if_given("user_id", "account", "qos", "partition_id")}
        AND (CAST(:tasks AS TEXT) IS NULL OR jobs.job_id LIKE :tasks ESCAPE '!')
        AND (CAST(:license AS TEXT) IS NULL OR jobs.licenses LIKE :license ESCAPE '!')
        GROUP BY jobs.row ORDER BY jobs.submit_time, jobs.row""",
    # The order by submit time lets an index find the latest rows without reading the other rows.
    "started_forecasts": f"""SELECT {_quoted("o", "point_s levels quantiles_s grounds outcome_s as_of")}, jobs.user_id,
            jobs.start_time AS known_at
        FROM forecast_outcomes o JOIN jobs ON jobs.row = o.row
        WHERE {_CLUSTER} AND o.kind = 'wait' AND o.moment = 'submit' AND o.resolution = 'started' AND o.method = :method
        AND o.grounds != :nothing AND o.as_of >= :since AND {_if_given("partition_id")}
        ORDER BY jobs.submit_time DESC, o.id DESC LIMIT :most""",
    "late_forecasts": f"""SELECT {_quoted("forecasts", "point_s levels quantiles_s grounds as_of")},
            :until - jobs.submit_time AS outcome_s, jobs.reason
        FROM jobs {_with("wait").removeprefix("LEFT ")}
        WHERE {_WAITS} AND forecasts.grounds != :nothing AND forecasts.as_of >= :since
        AND :until - jobs.submit_time > forecasts.point_s AND {_if_given("partition_id")}
        ORDER BY forecasts.id LIMIT :most""",
    "latest_run": f"""SELECT {_JOB}, jobs.state FROM jobs
        WHERE {_KNOWN_AS} AND (jobs.start_time IS NOT NULL OR jobs.open = 0) {_LATEST}""",
    # `since` is needed because a cluster that is set up anew counts its jobs from 1 again.
    "times_of": f"""SELECT jobs.start_time, jobs.end_time FROM jobs
        WHERE {_CLUSTER} AND jobs.job_id = :job_id AND jobs.submit_time >= :since ORDER BY jobs.submit_time LIMIT 1""",
    "has_started": f"SELECT jobs.row FROM jobs WHERE {_CLUSTER} AND jobs.start_time IS NOT NULL LIMIT 1",
    "latest": f"SELECT {_JOB} FROM jobs WHERE {_KNOWN_AS} {_LATEST}",
    "usual_of": f"""SELECT account, qos, group_id FROM (
            SELECT jobs.account, jobs.qos, jobs.group_id FROM jobs WHERE {_CLUSTER} AND jobs.user_id = :user
            ORDER BY jobs.submit_time + 0 DESC, jobs.row DESC LIMIT 100) lately
        GROUP BY account, qos, group_id ORDER BY count(*) DESC, account, qos LIMIT 1""",
    "qos_of": f"""SELECT DISTINCT jobs.partition_id, jobs.qos FROM jobs
        WHERE {_CLUSTER} AND jobs.user_id = :user AND jobs.submit_time + 0 >= :since AND jobs.qos IS NOT NULL
        ORDER BY jobs.partition_id, jobs.qos""",
    "gpu_types_of": f"""SELECT DISTINCT jobs.partition_id, jobs.gpu_type FROM jobs
        WHERE {_CLUSTER} AND jobs.submit_time >= :since AND jobs.req_gpus > 0
        ORDER BY jobs.partition_id, jobs.gpu_type""",
    "own_runs": f"""SELECT jobs.job_name, jobs.start_time, jobs.end_time FROM jobs
        WHERE {_CLUSTER} AND jobs.user_id = :user AND jobs.end_time >= :since AND jobs.start_time IS NOT NULL
        AND jobs.job_name IS NOT NULL AND jobs.status = 'completed' ORDER BY jobs.end_time DESC LIMIT 2000""",
    "issued": _issued("start_time partition_id req_procs", "(o.kind = 'runtime' OR o.kind = 'wait')"),
    "fell_back": f"""SELECT forecasts.method, count(*) AS forecasts,
            count(*) FILTER (WHERE forecasts.grounds = 'fallback') AS fell_back,
            max(CASE WHEN forecasts.grounds = 'fallback' THEN forecasts.basis END) AS basis
        FROM forecasts JOIN jobs ON jobs.row = forecasts.row
        WHERE {_CLUSTER} AND forecasts.kind = 'runtime' AND forecasts.moment = 'submit' AND forecasts.as_of >= :since
        GROUP BY forecasts.method ORDER BY forecasts.method""",
    "issued_memory": _issued(
        "req_mem_kib req_nodes", "(o.kind = 'memory' OR o.kind = 'request') AND o.moment = 'submit'"
    ),
    "issued_limits": _issued("req_time req_procs status", "o.kind = 'limit' AND o.moment = 'submit'"),
    "measured": f"""SELECT count(*) AS ended, count(jobs.used_mem_kib) AS measured,
            count(*) FILTER (WHERE jobs.unmeasured = 'zero') AS zero,
            count(*) FILTER (WHERE jobs.unmeasured = 'bad') AS bad,
            count(*) FILTER (WHERE jobs.status = 'out_of_memory') AS ran_out,
            count(*) FILTER (WHERE jobs.used_mem_kib BETWEEN jobs.req_mem_kib * 0.999 AND jobs.req_mem_kib * 1.001)
                AS copied
        FROM jobs WHERE {_CLUSTER} AND jobs.end_time >= :since AND jobs.start_time IS NOT NULL AND jobs.open = 0""",
    "ran_by_itself": _usage(
        "job_id used_mem_kib alloc_nodes req_mem_kib req_nodes",
        f"""{_ENDED} AND jobs.start_time IS NOT NULL
        AND jobs.status IN ('completed', 'failed', 'timeout', 'out_of_memory')
        ORDER BY jobs.end_time DESC LIMIT :most""",
    ),
    # Every job with events that the live clock has delivered, or will deliver by `until`, except jobs that had left the
    # system before `since`.
    "clock_jobs": f"""SELECT {_JOB} FROM jobs WHERE {_CLUSTER} AND (jobs.told > 0 OR jobs.submit_time <= :until)
        AND (jobs.told < {DELIVERED_GONE} OR jobs.told_end >= :since) ORDER BY jobs.submit_time""",
    "running_now": f"""SELECT {_JOB}, {_LIMIT_NOW}, jobs.state, forecasts.method, {_PREDICTION}
        FROM jobs {_with("runtime")} WHERE {_RUNS} AND {_if_given("user_id")} ORDER BY jobs.start_time, jobs.row""",
    "used": _usage("req_gpus gpu_type", _ENDED),
    "used_memory": _usage(
        "alloc_nodes used_mem_kib req_mem_kib req_nodes",
        f"""{_ENDED} AND jobs.start_time IS NOT NULL
        AND (jobs.used_mem_kib IS NOT NULL OR jobs.status = 'out_of_memory')""",
    ),
    "peaks_since": f"""SELECT {_quoted("jobs", "user_id job_name status end_time")},
            {_quoted("jobs", "alloc_nodes used_mem_kib req_mem_kib req_nodes")}
        FROM jobs WHERE {_CLUSTER} AND jobs.end_time > :after AND jobs.open = 0 AND jobs.start_time IS NOT NULL
        AND jobs.user_id IS NOT NULL AND jobs.job_name IS NOT NULL
        AND (jobs.used_mem_kib IS NOT NULL OR jobs.status = 'out_of_memory')
        ORDER BY jobs.end_time DESC LIMIT :most""",
    "still_open": _usage("req_gpus gpu_type", "jobs.open = 1"),
    "nth_last_end": f"""SELECT jobs.end_time FROM jobs WHERE {_CLUSTER} AND jobs.open = 0 AND jobs.end_time IS NOT NULL
        ORDER BY jobs.end_time DESC LIMIT 1 OFFSET :most""",
    "running": f"""SELECT count(*) FILTER (WHERE jobs.user_id IS NULL OR jobs.user_id != :user) AS others,
            sum(jobs.alloc_nodes) FILTER (WHERE jobs.user_id = :user) AS own_nodes
        FROM jobs WHERE {_RUNS}""",
    "plan_week": f"""SELECT {_quoted("jobs", "job_id submit_time user_id account partition_id qos req_time")},
            {_PREDICTION} FROM jobs {_with("runtime")}
        WHERE {_CLUSTER} AND jobs.submit_time >= :since AND jobs.submit_time < :until AND jobs.open = 0""",
    "arms": f"""SELECT {_quoted("jobs", "job_id user_id partition_id qos submit_time start_time end_time req_procs")}
        FROM jobs WHERE {_CLUSTER} AND jobs.submit_time >= :since AND jobs.submit_time < :until AND jobs.open = 0
        AND jobs.start_time IS NOT NULL AND jobs.end_time IS NOT NULL""",
    "issued_since": f"""SELECT forecasts.id, forecasts.kind,
            {_quoted("jobs", "job_id user_id partition_id job_name req_procs")}, forecasts.method, {_PREDICTION}
        FROM forecasts JOIN jobs ON jobs.row = forecasts.row
        WHERE forecasts.id > :after AND {_CLUSTER} AND (forecasts.moment = 'submit' OR forecasts.moment = 'next')
        AND (forecasts.kind = 'limit' AND forecasts.method = :limit_method
            OR forecasts.kind = 'wait' AND forecasts.method = :wait_method
            OR forecasts.kind = 'request' AND forecasts.method = :memory_method)
        ORDER BY forecasts.id DESC LIMIT :most""",
    "planned": """SELECT job_id, submit_time, user_limit, planned, state, at, how FROM planned
        WHERE cluster = :cluster ORDER BY at, job_id""",
    "plan_changes": """SELECT id, at, job_id, submit_time, what, limit_from, limit_to, why FROM plan_changes
        WHERE cluster = :cluster AND at >= :since ORDER BY id""",
    "tokens": "SELECT * FROM tokens ORDER BY created, id",
    "counts": f"""SELECT count(*) AS jobs, min(jobs.submit_time) AS first,
            count(*) FILTER (WHERE jobs.told_end != jobs.end_time OR jobs.told_start != jobs.start_time) AS corrected
        FROM jobs WHERE {_CLUSTER}""",
}
