# SPDX-License-Identifier: Apache-2.0
"""`batchcast limits`: suggests time limits or memory requests, and computes their effect on the log's jobs."""

from __future__ import annotations

import math
from typing import Any

from ...errors import UsageError
from ..grammar import TABLES_OR_JSON, option, risk_option, table_options, verb
from ..options import log_options, take_log
from ..output import log_as_typed, progress, show_tables


@verb("limits", json=TABLES_OR_JSON)
@log_options
@option("--memory", "Suggest memory requests instead of time limits.")
@option("--by user|account|queue|application", "Also print the largest groups.")
@risk_option("jobs")
@option("--floor TIME|SIZE", "Smallest suggestion. Default: 5:00; with --memory 64M.")
@option("--step TIME|SIZE", "Round suggestions up to a multiple of this. Default: 5:00; with --memory 64M.")
@option("--machine FILE", "With --memory: suggest at most the memory of this machine's largest node.")
@table_options
def command(memory: bool, by: str | None, risk: float, **options: Any) -> None:
    """Suggest a time limit with the given risk at every submission of LOG, and count kills and waste.

    The usual rule (1.25 x the longest of the last ten) and the users' own limits are shown for comparison. A suggestion
    uses only jobs that have ended by then, and never exceeds the user's own limit. With --memory: requests of peak
    memory per node (per processor, if LOG has no nodes), and the request with the least expected waste.
    """
    from ...report.limits import MEMORY, TIME, advice_differences, advice_table
    from ...results.forecasts import advised
    from ...trace.machine_files import open_machine

    least, multiple = (_amount(f"--{name}", options[name], memory) for name in ("floor", "step"))
    if options["machine"] and not memory:
        raise UsageError("--machine only applies with --memory: it gives a node's memory")
    # infinite if the file does not give a node's memory
    most = max(group.memory_mib for group in open_machine(options["machine"]).nodes) if options["machine"] else math.inf
    log = take_log(options)
    amounts: dict[str, Any] = {"floor_s": least, "step_s": multiple}
    if memory:
        node = most if most < math.inf else None
        amounts = {"memory": True, "floor_mib": least, "step_mib": multiple, "node_mib": node}
    wording = MEMORY if memory else TIME
    with progress(f"Computing {wording.heading.lower()}", len(log.trace)) as tick:
        result = advised(
            log.trace,
            memory=memory,
            risk=risk,
            floor=least,
            step=multiple,
            most=most,
            by=by,
            procs=log.procs,
            tick=tick,
        )
    if options["as_json"]:
        return log.emit("limits", {"by": by, "risk": risk, **amounts}, result.rows)
    rows, groups = ([row for row in result.rows if ("by" in row) == grouped] for grouped in (False, True))
    tables = [advice_table(wording, rows, risk), *([advice_table(wording, groups, risk, by)] if groups else [])]
    next_step = f"batchcast evaluate {log_as_typed()} -o report/  (gain of another queue order)"
    if by is None:
        next_step = f"batchcast limits {log_as_typed()}{' --memory' * memory} --by user  (who could save most)"
    show_tables(
        tables, options["details"], advice_differences(wording, rows), headline=result.words, next_step=next_step
    )


def _amount(name: str, text: str | None, memory: bool) -> float:
    """Return the value of an option in seconds, or with `memory` in MiB."""
    from ...units import parse_duration, parse_memory

    try:
        amount = parse_memory(text or "64M") / 1024 if memory else parse_duration(text or "5:00")
    except UsageError as error:
        raise UsageError(f"{name}: {error.message}") from None
    return 0.0 if math.isnan(amount) else amount
