"""Write the Grafana dashboards in contrib/grafana from their queries: python -m tools.dashboards."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

PLACE = Path(__file__).parents[1] / "contrib" / "grafana"
SOURCE = {"type": "prometheus", "uid": "${source}"}
HERE = 'cluster=~"$cluster"'
FINAL = f'{HERE},partition=~"$partition"'


class Panel(NamedTuple):
    """One panel: title, queries with a legend each, unit, and width of 24."""

    title: str
    questions: Sequence[tuple[str, str]]
    unit: str = "short"
    width: int = 12
    kind: str = "timeseries"
    bad_above: float | None = None


OPERATION = (
    Panel("Store readable", [("batchcast_store_up", "store")], "bool_yes_no", 4, "stat"),
    Panel(
        "Since the last look",
        [(f"batchcast_collector_last_look_seconds{{{HERE}}}", "{{cluster}}")],
        "s",
        5,
        "stat",
        600,
    ),
    Panel(
        "Forecasts stand behind",
        [(f"batchcast_collector_behind_seconds{{{HERE}}}", "{{cluster}}")],
        "s",
        5,
        "stat",
        3600,
    ),
    Panel("Jobs in the store", [(f"batchcast_jobs{{{HERE}}}", "{{cluster}}")], "short", 5, "stat"),
    Panel("Size of the store", [("batchcast_store_bytes", "store")], "bytes", 5, "stat"),
    Panel(
        "Answers a second, by place",
        [("sum by (place) (rate(batchcast_request_seconds_count[5m]))", "{{place}}")],
        "reqps",
    ),
    Panel(
        "Time to answer",
        [
            ("histogram_quantile(0.5, sum by (le) (rate(batchcast_request_seconds_bucket[5m])))", "half"),
            ("histogram_quantile(0.99, sum by (le) (rate(batchcast_request_seconds_bucket[5m])))", "99 %"),
        ],
        "s",
    ),
    Panel(
        "Answers that were none, by status",
        [('sum by (status) (rate(batchcast_request_seconds_count{status!~"2..|304"}[5m]))', "{{status}}")],
        "reqps",
    ),
    Panel("Refused at the door", [("sum by (why) (rate(batchcast_refused_total[5m]))", "{{why}}")], "reqps"),
    Panel("Connections open", [("batchcast_connections", "connections")]),
    Panel("Questions to Slurm's daemons", [(f"deriv(batchcast_daemon_calls{{{HERE}}}[10m])", "{{daemon}}")], "reqps"),
    Panel("Of which failed", [(f"deriv(batchcast_daemon_failures{{{HERE}}}[10m])", "{{daemon}}")], "reqps"),
    Panel("Daemons that answer", [(f"batchcast_daemon_up{{{HERE}}}", "{{daemon}}")], "bool_yes_no"),
    Panel("Events told late", [(f"batchcast_events_late{{{HERE}}}", "{{cluster}}")]),
)
FORECASTS = (
    Panel(
        "Waits kept within the 90 % bound (30 days)",
        [(f'batchcast_forecast_coverage{{{FINAL},kind="wait",level="0.9"}}', "{{predictor}} {{partition}}")],
        "percentunit",
    ),
    Panel(
        "Waits kept within the 50 % bound",
        [(f'batchcast_forecast_coverage{{{FINAL},kind="wait",level="0.5"}}', "{{predictor}} {{partition}}")],
        "percentunit",
    ),
    Panel(
        "Median error of waits",
        [(f'batchcast_forecast_median_error_seconds{{{FINAL},kind="wait"}}', "{{predictor}} {{partition}}")],
        "s",
    ),
    Panel(
        "Median error of run times",
        [(f'batchcast_forecast_median_error_seconds{{{FINAL},kind="runtime"}}', "{{predictor}} {{partition}}")],
        "s",
    ),
    Panel(
        "Jobs that advised requests would have cut off",
        [(f'batchcast_advice_exceeded_ratio{{{FINAL},by="advice"}}', "{{kind}} {{predictor}} {{partition}}")],
        "percentunit",
    ),
    Panel(
        "Requested / used: users' requests and suggested ones",
        [(f"batchcast_advice_asked_over_used{{{FINAL}}}", "{{kind}} {{predictor}} {{by}} {{partition}}")],
        "short",
    ),
    Panel(
        "Limits and memory kept within the 90 % bound",
        [
            (
                f'batchcast_forecast_coverage{{{FINAL},kind=~"limit|memory",level="0.9"}}',
                "{{kind}} {{predictor}} {{partition}}",
            )
        ],
        "percentunit",
    ),
    Panel(
        "Forecasts that these figures rest on",
        [(f"batchcast_forecasts_30d{{{FINAL}}}", "{{kind}} {{predictor}} {{partition}}")],
    ),
    Panel(
        "Waits by size: median, and what was forecast",
        [
            (f'batchcast_wait_seconds{{{FINAL},quantile="0.5"}}', "{{partition}} {{size}}"),
            (f'batchcast_wait_forecast_seconds{{{FINAL},quantile="0.5"}}', "{{partition}} {{size}}, forecast"),
        ],
        "s",
    ),
    Panel(
        "Waits by size: nine in ten",
        [
            (f'batchcast_wait_seconds{{{FINAL},quantile="0.9"}}', "{{partition}} {{size}}"),
            (f'batchcast_wait_forecast_seconds{{{FINAL},quantile="0.9"}}', "{{partition}} {{size}}, forecast"),
        ],
        "s",
    ),
)
DASHBOARDS = {
    "operation": ("batchcast: collector and service", OPERATION, ("cluster",)),
    "forecasts": ("batchcast: how forecasts come out", FORECASTS, ("cluster", "partition")),
}


def dashboard(name: str) -> dict[str, Any]:
    """Return one dashboard as Grafana imports it (schema 38: Grafana 10 and newer)."""
    title, panels, variables = DASHBOARDS[name]
    shown: list[dict[str, Any]] = []
    x = y = height_before = 0
    for number, panel in enumerate(panels, 1):
        height = 4 if panel.kind == "stat" else 8
        if x + panel.width > 24:
            x, y = 0, y + height_before
        height_before = height
        shown.append(_panel(panel, number, {"h": height, "w": panel.width, "x": x, "y": y}))
        x += panel.width
    return {
        "uid": f"batchcast-{name}", "title": title, "tags": ["batchcast", "slurm"], "schemaVersion": 38, "version": 1,
        "editable": True, "graphTooltip": 1, "refresh": "1m",
        "time": {"from": "now-24h", "to": "now"}, "timezone": "browser",
        "annotations": {"list": []}, "links": [], "panels": shown,
        "templating": {"list": [_source(), *(_variable(one) for one in variables)]},
    }  # fmt: skip


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.bad_above is not None:
        steps.append({"color": "red", "value": panel.bad_above})
    targets = [
        {"datasource": SOURCE, "expr": expr, "legendFormat": legend, "refId": chr(65 + k)}
        for k, (expr, legend) in enumerate(panel.questions)
    ]
    field: dict[str, Any] = {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.unit == "percentunit":
        field |= {"min": 0, "max": 1}
    return {
        "id": number, "type": panel.kind, "title": panel.title, "datasource": SOURCE, "gridPos": place,
        "targets": targets, "fieldConfig": {"defaults": field, "overrides": []}, "options": {},
    }  # fmt: skip


def _source() -> dict[str, Any]:
    return {
        "name": "source",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
        "hide": 0,
    }


def _variable(name: str) -> dict[str, Any]:
    of = {"cluster": "batchcast_jobs", "partition": "batchcast_forecast_coverage"}[name]
    query = f"label_values({of}, {name})"
    return {
        "name": name, "label": name, "type": "query", "datasource": SOURCE, "refresh": 2,
        "query": {"query": query, "refId": name}, "includeAll": True, "multi": True, "allValue": ".*", "sort": 1,
        "current": {"text": "All", "value": "$__all"}, "hide": 0,
    }  # fmt: skip


def text_of(name: str) -> str:
    """Return the file of a dashboard."""
    return json.dumps(dashboard(name), indent=1) + "\n"


def questions() -> dict[str, list[str]]:
    """Return every query of every dashboard, with the variables at their initial value: everything."""
    return {
        name: [expr.replace("$cluster", ".*").replace("$partition", ".*") for p in panels for expr, _ in p.questions]
        for name, (_, panels, _) in DASHBOARDS.items()
    }


if __name__ == "__main__":
    PLACE.mkdir(exist_ok=True)
    for each in DASHBOARDS:
        (PLACE / f"{each}.json").write_text(text_of(each), encoding="utf-8")
