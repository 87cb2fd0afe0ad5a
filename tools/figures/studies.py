"""The commands behind the figures of README and docs, and what is read from each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from batchcast.units import span

from .files import Figures, Study

THETA, GWU = "ThetaGPU-2022.csv.gz", "GWU-2019.csv.gz"
KTH, CTC, SP2, HPC2N, BLUE, DS, LPC, DAS2 = (
    f"{name}.swf.gz"
    for name in (
        "KTH-SP2-1996-2.1-cln", "CTC-SP2-1996-3.1-cln", "SDSC-SP2-1998-4.2-cln", "HPC2N-2002-2.2-cln",
        "SDSC-BLUE-2000-4.2-cln", "SDSC-DS-2004-2.1-cln", "LPC-EGEE-2004-1.2-cln", "DAS2-fs1-2003-1",
    )
)  # fmt: skip
ITP = "microsoft-itp-2021"
GRAHAM = "DRAC-Graham-2021-submitdays.csv.gz"
RNASEQ, CHIPSEQ, IWD = (f"nextflow-{name}.csv.gz" for name in ("rnaseq", "chipseq", "iwd"))


def table(head: str, rows: Iterable[Sequence[object]]) -> list[str]:
    """Return the lines of a Markdown table; `head` has its titles, separated by bars."""
    titles = [title.strip() for title in head.split("|")]
    lines = [f"| {' | '.join(titles)} |", "|" + "---|" * len(titles)]
    return lines + [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]


def name_of(log: str) -> str:
    """Return a log's name without the endings of its file."""
    return re.sub(r"\.(swf|csv)\.gz$", "", log)


def by_name(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return a document's rows by predictor."""
    return {row["predictor"]: row for row in document["results"]}


def between(row: dict[str, Any], name: str, form: str) -> str:
    """Return a difference with its 90 % interval."""
    middle, low, high = (format(end, form) for end in ends_of(row, name))
    return f"{middle} ({low} .. {high})"


def ends_of(row: dict[str, Any], name: str, of: str = "differences") -> list[Any]:
    """Return a difference and the ends of its 90 % interval; three times None for the reference itself."""
    stated = row.get(of, {}).get(name, {})
    return [stated.get(part) for part in ("value", "low", "high")]


def signed(seconds: float) -> str:
    """Return a time with its sign."""
    return span(seconds) if seconds < 0 else f"+{span(seconds)}"


def read_modern(documents: list[Any], _: Path) -> Figures:
    """Read errors of three methods on two logs of 2019 and 2022."""
    found, rows = Figures(), []
    for log, document in zip(("ThetaGPU", "GWU"), documents, strict=True):
        for name, row in by_name(document).items():
            bound = row.get("coverage_90")
            found.values |= {
                f"{log}.jobs": row["jobs"],
                f"{log}.{name}.mean_s": round(row["mae_s"]),
                f"{log}.{name}.median_s": round(row["median_ae_s"], 1),
                f"{log}.{name}.verdict": row.get("differences", {}).get("mae_s", {}).get("verdict", "the reference"),
            }
            if bound is not None:
                found.values[f"{log}.{name}.bound_share"] = round(bound, 4)
            ends = ends_of(row, "mae_s")
            against = "-" if ends[0] is None else f"{signed(ends[0])} ({signed(ends[1])} to {signed(ends[2])})"
            title = "users' limits" if name == "requested" else f"`{name}`"
            cells = span(row["mae_s"]), span(row["median_ae_s"]), "-" if bound is None else f"{100 * bound:.1f} %"
            rows.append((log, title, *cells, against))
    head = "log | predictor | mean error | median error | 90 % bound covers"
    found.blocks["table"] = table(f"{head} | mean error minus `recent_mean`'s (90 % interval)", rows)
    return found


SOFT = (THETA, KTH, SP2, CTC, HPC2N)


def read_soft(documents: list[Any], _: Path) -> Figures:
    """Read CESNET's rule `soft_walltime` against the users' limits and `recent_mean`, on five logs."""
    found, rows, smaller = Figures(), [], 0
    for log, document in zip(SOFT, documents, strict=True):
        name = name_of(log).partition("-1")[0].partition("-2")[0]
        methods = by_name(document)
        soft, limits = methods["soft_walltime"], methods["requested"]
        ends = ends_of(soft, "mae_s", "limit_differences")
        smaller += ends[2] < 0
        found.values |= {
            f"{name}.jobs": soft["jobs"],
            f"{name}.mean_s": round(soft["mae_s"]),
            f"{name}.limits_difference_s": round(ends[0]),
            f"{name}.too_short_share": round(soft["underestimate_rate"], 4),
        }
        mean = ends_of(soft, "mae_s")
        differences = (f"{signed(a)} ({signed(low)} to {signed(high)})" for a, low, high in (ends, mean))
        shares = (f"{100 * one['underestimate_rate']:.1f} %" for one in (soft, limits))
        rows.append((name, *differences, *shares))
    found.values["smaller_error_than_limits"] = smaller
    head = "log | minus the limits' (90 % interval) | minus `recent_mean`'s (90 % interval)"
    found.blocks["table"] = table(f"{head} | too short | limits too short", rows)
    return found


SETS = {
    "HPC2N04": f"{HPC2N} --from 2004-01-01 --to 2005-01-01",
    "HPC2N05": f"{HPC2N} --from 2005-01-01",
    "SDSC02": f"{BLUE} --from 2002-01-01 --timezone +01:00 --status 1",
    "SDSC04": f"{DS} --status 1",
    "CTC": CTC,
    "SDSC-SP2": SP2,
    "KTH": KTH,
    "SDSC-BLUE": BLUE,
    "DAS2": DAS2,
    "LPC": LPC,
}


def read_sets(documents: list[Any], _: Path) -> Figures:
    """Read `kernel` and `last_2` against `recent_mean` on ten sets, and how often `kernel` is ahead."""
    found, kernel, last = Figures(), [], []
    words: list[str] = []
    for name, document in zip(SETS, documents, strict=True):
        rows = by_name(document)
        own, reference, other = rows["kernel"], rows["recent_mean"], rows["last_2"]
        words += [own["differences"]["mae_s"]["verdict"], f"apa {own['differences']['apa']['verdict']}"]
        kernel.append(
            (name, f"{own['mae_s']:,.0f} {own['apa']:.3f}", f"{reference['mae_s']:,.0f} {reference['apa']:.3f}",
             between(own, "mae_s", "+,.0f"), between(own, "apa", "+.3f"))
        )  # fmt: skip
        ends = " to ".join(f"{end:+,.0f}" for end in ends_of(other, "mae_s")[1:])
        last.append(
            (name, f"{other['jobs']:,}", f"{other['mae_s']:,.0f}", f"{other['underestimate_rate']:.3f}",
             f"{reference['mae_s']:,.0f}", f"{reference['underestimate_rate']:.3f}",
             f"{other['differences']['mae_s']['verdict']}: {ends} s")
        )  # fmt: skip
    numbers = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    found.values = {
        "sets": numbers[len(documents)],
        "mae_ahead": numbers[words.count("ahead")],
        "mae_level": numbers[words.count("level")],
        "mae_behind": numbers[words.count("behind")],
        "apa_ahead": numbers[words.count("apa ahead")],
    }
    head = "set | `kernel`: MAE, accuracy | `recent_mean` | difference of MAE (90 % interval) | of accuracy"
    found.blocks["kernel"] = table(head, kernel)
    head = "set | jobs | `last_2`: MAE, s | underestimates | `recent_mean`: MAE, s | underestimates"
    found.blocks["last_2"] = table(head + " | difference of MAE, 90 % interval", last[:4])
    return found


def read_wait(documents: list[Any], _: Path) -> Figures:
    """Read the accuracy of wait predictions on ThetaGPU."""
    found, rows = Figures(), []
    for name, row in by_name(documents[0]).items():
        found.values |= {
            f"{name}.median_s": row["median_abs_error_s"],
            f"{name}.mean_s": round(row["mean_abs_error_s"]),
            f"{name}.crps": round(row["crps_log"], 2),
        }
        kept = [row.get(f"interval_{level}") for level in (80, 90)]
        if None not in kept:
            found.values |= {f"{name}.kept{level}_share": round(one, 4) for level, one in zip((80, 90), kept)}
        ends = ends_of(row, "mean_abs_error_s")
        against = "-" if ends[0] is None else f"{signed(ends[0])} ({signed(ends[1])} to {signed(ends[2])})"
        shares = ("-" if one is None else f"{100 * one:.1f} %" for one in kept)
        spans = span(row["median_abs_error_s"]), span(row["mean_abs_error_s"])
        rows.append((f"`{name}`", f"{row['jobs']:,}", *spans, *shares, f"{row['crps_log']:.2f}", against))
    head = "predictor | jobs | median error | mean error | 80 % interval covers | 90 % interval covers | CRPS"
    found.blocks["table"] = table(f"{head} | mean error minus `forecast`'s (90 % interval)", rows)
    return found


EVALUATED = (KTH, CTC, SP2, HPC2N)


def result(folder: Path, report: str) -> list[dict[str, Any]]:
    """Return the rows of a report's result.json."""
    rows: list[dict[str, Any]] = json.loads((folder / report / "result.json").read_text(encoding="utf-8"))["results"]
    return rows


def read_evaluated(_: list[Any], folder: Path) -> Figures:
    """Read how close simulations come to four recorded logs."""
    found, rows = Figures(), []
    for log in EVALUATED:
        name = name_of(log)
        row = next(row for row in result(folder, name_of(log)) if row["part"] == "validity")
        short = name.split("-")[0] if not name.startswith("SDSC") else "SDSC-SP2"
        found.values |= {f"{short}.verdict": row["verdict"], f"{short}.ratio": round(row["recorded_over_simulated"], 1)}
        means = (span(row[f"{which}_mean_wait_s"]) for which in ("recorded", "simulated"))
        rows.append((name, f"{row['jobs']:,}", *means, f"{row['recorded_over_simulated']:.1f}", row["verdict"]))
    head = "log | jobs | recorded mean wait | simulated (EASY, requests) | ratio | verdict"
    found.blocks["table"] = table(head, rows)
    return found


def read_graham(_: list[Any], folder: Path) -> Figures:
    """Read which predictor is best on a log without users, and which column would help the others."""
    rows, simple = result(folder, "report"), result(folder, "simple")
    errors = {row["predictor"]: row["mae_s"] for row in rows if row["part"] == "forecast"}
    best = min((name for name in errors if name != "actual"), key=lambda name: errors[name])
    advice = next(row for row in simple if row["part"] == "advice")
    values = {f"{name}.mean_s": round(error) for name, error in errors.items()}
    values |= {"advised": advice["predictor"], "advised.mean_s": round(advice["mae_s"])}
    said = "no sentence" if not any(row["part"] == "advice" for row in rows) else "a sentence"
    return Figures({"best": best, "by_default": said, "against.mean_s": round(advice["against_mae_s"]), **values})


def read_loops(documents: list[Any], _: Path) -> Figures:
    """Read what learning at the recorded ends changes on SDSC-SP2."""
    names = {"easy": "EASY", "easy-sjbf": "EASY-SJBF", "forecast": "forecast"}
    found, rows = Figures(), []
    for row in documents[-1]["results"]:
        if row["part"] != "schedule" or row["predictor"] in ("requested", "actual"):
            continue
        closed, opened = row["mean_wait_s_a"], row["mean_wait_s_b"]
        middle, *sides = ends_of(row, "mean_wait_s")
        change, ends = f"{signed(middle)} ({100 * (opened / closed - 1):+.1f} %)", " to ".join(map(signed, sides))
        found.values[f"{row['policy']}.{row['predictor']}.verdict"] = row["differences"]["mean_wait_s"]["verdict"]
        rows.append((names[row["policy"]], row["predictor"], span(closed), span(opened), change, ends))
    head = "policy | planned with | mean wait, closed loop | open loop | change | 90 % interval"
    found.blocks["table"] = table(head, rows)
    apart = [row for row, verdict in zip(rows, found.values.values(), strict=True) if verdict != "level"]
    found.blocks["apart"] = table(head, apart)
    return found


def read_pools(documents: list[Any], _: Path) -> Figures:
    """Read two logs under EASY on a pool and under Slurm's loops."""
    found, rows = Figures(), []
    for log, policy, document in zip((KTH, KTH, SP2, SP2), ("EASY", "Slurm's loops") * 2, documents, strict=True):
        row = document["log"]["validity"]
        means = (f"{row[f'{which}_mean_wait_s']:,.0f} s" for which in ("recorded", "simulated"))
        near = (f"{row[name]:.2f}" for name in ("wait_distance", "wait_rank_correlation"))
        rows.append((f"{name_of(log)}, {policy}", *means, *near, row["verdict"]))
    head = "log | recorded mean wait | simulated | distance of the distributions | rank correlation | verdict"
    found.blocks["table"] = table(head, rows)
    return found


def read_answers(printed: list[Any], _: Path) -> Figures:
    """Read how well a simulated Slurm and slurmctld's own code agree in ranking settings."""
    text = " ".join(printed[0].split())
    settings = re.search(r"runs of (\d+) settings", text)
    ranks = re.findall(r"Spearman of the settings' means (\d\.\d+)", text)
    assert settings, text[:300]
    return Figures({"settings": int(settings[1]), "described": float(ranks[0]), "corrected": float(ranks[1])})


def read_recorded(printed: list[Any], _: Path) -> Figures:
    """Read predicted waits of recorded Slurm runs, all runs together."""
    rows = []
    for line in printed[0].split("all ", 1)[1].splitlines()[2:]:
        name, *cells = re.split(r"\s{2,}", line.strip())
        rows.append((f"`{name}`", *([""] * (5 - len(cells)) if name == "squeue --start" else ()), *cells))
        if name not in ("forecast, nodes", "forecast", "squeue --start"):
            rows[-1] = (*rows[-1][:4], "", rows[-1][-1])
    head = "method | CRPS of log(1 + wait) | mean error, s | median error, s | 90 % bound covers, %"
    return Figures({}, {"table": table(f"{head} | median error of the jobs that Slurm estimated, s", rows)})


ROW = r"^(\S+) +(real run 2|simulated|another policy)(?: \d)? +\d+ +(\d+)% +(\d+)% +\d+ s +([\d.]+) +([\d.]+)"
"""A line of `benchmarks.prove`: set, reference, shares within 30 and 300 s, ratio of mean waits, distance."""


def read_records(printed: list[Any], _: Path) -> Figures:
    """Read simulated and repeated runs of recorded Slurm schedules, and starts after a recorded state."""
    whole, after = printed[0].split("Starts in the ten minutes")
    sets: dict[str, dict[str, list[list[float]]]] = {}
    for name, kind, *cells in re.findall(ROW, whole, re.M):
        sets.setdefault(name, {}).setdefault(kind, []).append([float(cell) for cell in cells])
    means = {
        (name, kind): [sum(column) / len(column) for column in zip(*runs, strict=True)]
        for name, kinds in sets.items() for kind, runs in kinds.items()
    }  # fmt: skip
    rows = []
    for name in sets:
        if not name.startswith("short") and not name.endswith(("aligned", "x5")):
            kinds = (means[name, kind] for kind in ("real run 2", "simulated", "another policy"))
            rows.append((name, *(f"{one[1]:.0f} %, {one[2]:.2f}, {one[3]:.3f}" for one in kinds)))
    values: dict[str, Any] = {"sets": len(sets)}
    for place, span_s in ((0, 30), (1, 300)):
        apart = [means[name, "simulated"][place] - means[name, "real run 2"][place] for name in sets]
        values |= {f"more_{span_s}": sum(one > 0 for one in apart), f"fewer_{span_s}": sum(one < 0 for one in apart)}
    right = [int(one) for one in re.findall(r"^\S+-\d +\d+ +\d+ +(\d+)%", after, re.M)]
    found = Figures(values | {"right_least": f"{min(right)} %", "right_most": f"{max(right)} %"})
    head = "recorded set | second real run | simulated, mean of two runs | another policy"
    found.blocks["table"] = table(head, rows)
    return found


def read_windows(printed: list[Any], _: Path) -> Figures:
    """Read RLScheduler's published windows: its figures repeated, and our policies against EASY on them."""
    found, rows, equal = Figures(), [], 0
    for log in json.loads(printed[0]):
        name = log["log"]
        for order, both in log["repeated"].items():
            pairs = zip(both.values(), log["published"][order], strict=True)
            equal += sum(round(one["mean"], 2) == said for one, said in pairs)
        for word in ("largest", "never_ran"):
            shares = [round(both["backfilling"][word], 2) for both in log["repeated"].values()]
            found.values |= {f"{name}.{word}.least_share": min(shares), f"{name}.{word}.most_share": max(shares)}
        found.values |= {f"{name}.{word}": log[word] for word in ("different_jobs", "never_ran", "disjoint_windows")}
        for policy, row in log["ours"].items():
            cells = [f"{one['mean']:,.1f}" for one in (row, log["disjoint"][policy])]
            if policy != "EASY":
                apart = [
                    f"{one['difference']:+,.1f} ({one['low']:+,.1f} to {one['high']:+,.1f})"
                    for one in (row, log["disjoint"][policy])
                ]
                cells = [f"{cell}; {one}" for cell, one in zip(cells, apart, strict=True)]
            rows.append((name, policy, *cells))
    found.values["equal"] = equal
    head = "log | policy | ten windows: mean; minus EASY (90 % interval)"
    found.blocks["table"] = table(f"{head} | 40 windows apart: mean; minus EASY (90 % interval)", rows)
    return found


def read_coverage(printed: list[Any], _: Path) -> Figures:
    """Read how often intervals contain zero if there is no difference."""
    lines = printed[0].strip().splitlines()
    shares = [float(re.findall(r"[\d.]+ % \|$", line)[0].split()[0]) for line in lines[2:]]
    values = {"least": f"{min(shares):.0f}", "most": f"{max(shares):.0f} %"}
    ranges: dict[tuple[str, str], list[float]] = {}
    for line, share in zip(lines[2:], shares, strict=True):
        errors, tail = (cell.strip() for cell in line.strip("|").split("|")[:2])
        ranges.setdefault((errors, tail), []).append(share)
    rows = [(*key, f"{min(one):.1f} to {max(one):.1f} %") for key, one in ranges.items()]
    short = table("errors | tail of burst sizes | intervals that hold zero, 36 to 972 groups", rows)
    return Figures(values, {"table": lines, "ranges": short})


def read_accuracy(printed: list[Any], _: Path) -> Figures:
    """Read what `accuracy` prints for the synthetic site."""
    lines = printed[-1].rstrip("\n").splitlines()
    shown = ["```", "$ batchcast accuracy --store /tmp/demo.db | head -7", *lines, "```"]
    return Figures({}, {"printed": shown})


def read_demo_log(documents: list[Any], _: Path) -> Figures:
    """Read the log that examples and the tutorial use."""
    log = documents[-1]["log"]
    return Figures({"jobs": log["jobs"], "procs": round(log["machine_procs"])})


def read_order(documents: list[Any], _: Path) -> Figures:
    """Read KTH by arrival and by prediction, on Slurm's loops."""
    found, rows = Figures(), []
    for order, age, document in zip(("none", "forecast"), ("", "found"), documents, strict=True):
        row = document["results"][0]
        hours = (f"{row[name] / 3600:.{digits}f}" for name, digits in (("mean_wait_s", 2), ("max_wait_s", 1)))
        mean, longest = hours
        rows.append((order, age, mean, f"{row['mean_bounded_slowdown']:.1f}", longest))
    found.blocks["table"] = table("`--order` | `--age` | mean wait, h | mean bounded slowdown | longest wait, h", rows)
    return found


def cells_of(lines: Iterable[str]) -> list[dict[str, str]]:
    """Return the rows of the first Markdown table in the lines, by column title."""
    rows: list[list[str]] = []
    for line in lines:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            break
    return [dict(zip(rows[0], row, strict=True)) for row in rows[2:]]


INTERVAL = re.compile(r"(\S+) \((\S+) to (\S+)\)")
CONTROLLED = {
    "none": "arrival", "limits": "arrival, planned limits", "order-limits": "time limits",
    "order": "predictions", "both-limits": "time limits, planned limits", "both": "predictions, planned limits",
}  # fmt: skip


def read_lab_control(printed: list[Any], _: Path) -> Figures:
    """Read the tables that order_gain.py prints with `--against`: each arm against arrival and its control."""
    found, against = Figures(), {}
    for section in printed[0].split("Differences from ")[1:]:
        control, _, text = section.partition(":\n")
        against[control] = {row["arm"]: row for row in cells_of(text.splitlines())}
        for arm, row in against[control].items():
            for what in ("wait", "slowdown"):
                if ends := INTERVAL.match(row[f"{what} difference"]):
                    named = zip(("change", "low", "high"), map(float, ends.groups()), strict=True)
                    found.values |= {f"{arm}.{what}_from_{control}.{name}": value for name, value in named}
    first = next(iter(against.values()))
    shown = list(against)[:2]  # the page gives the differences from the third control in a sentence, not in the table
    for arm, row in first.items():
        found.values |= {f"{arm}.jobs": int(row["jobs"]), f"{arm}.mean_wait_min": float(row["mean wait"])}
        found.values |= {f"{arm}.slowdown": float(row["slowdown"]), f"{arm}.longest_min": float(row["longest"])}
        found.values[f"{arm}.worse_off"] = row["people worse off"]
        found.values[f"{arm}.longest_times"] = round(float(row["longest"]) / float(first["none"]["longest"]), 2)
    rows = [
        (CONTROLLED.get(arm, arm), row["mean wait"], row["longest"], row["people worse off"],
         *(against[control][arm]["wait difference"].split(":")[0] for control in shown))
        for arm, row in first.items()
    ]  # fmt: skip
    titles = " | ".join(f"change from {CONTROLLED[control]}" for control in shown)
    head = "order by | mean wait, min | longest wait, min | users who wait 10 % longer"
    found.blocks["changes"] = table(f"{head} | {titles}", rows)
    return found


def read_lab_clusters(printed: list[Any], _: Path) -> Figures:
    """Read the table of ways to choose among three real clusters, and each way's share of the race's gain."""
    rows = list(cells_of(printed[0].splitlines()))
    found = Figures()
    gains = {}
    for row in rows:
        arm = row["arm"]
        found.values |= {f"{arm}.mean_min": float(row["mean, min"]), f"{arm}.submissions": int(row["submissions"])}
        found.values |= {f"{arm}.free_jobs": int(row["free jobs"]), f"{arm}.held": row["90 % ends held"]}
        for name, title in (("home", "shorter than at home, min"), ("slurm", "shorter than slurm, min")):
            if ends := INTERVAL.match(row[title]):
                middle, low, high = map(float, ends.groups())
                gains[arm, name] = middle
                found.values |= {f"{arm}.from_{name}": middle, f"{arm}.from_{name}.low": low}
                found.values[f"{arm}.from_{name}.high"] = high
    if ("race", "home") in gains:
        for arm in ("slurm", "batchcast"):
            found.values[f"{arm}.of_race_share"] = round(gains[arm, "home"] / gains["race", "home"], 3)
    titles = [title for title in rows[0] if title != "free jobs"]
    found.blocks["table"] = table(" | ".join(titles), [tuple(row[title] for title in titles) for row in rows])
    return found


def read_clusters(printed: list[Any], _: Path) -> Figures:
    """Read the ways to choose among clusters: waits of movable jobs, their gains, and waits of other jobs."""
    found = Figures()

    def minutes(row: dict[str, Any], name: str) -> str:
        middle, low, high = (row[f"{name}{end}_s"] / 60 for end in ("", "_low", "_high"))
        return f"{middle:.1f} ({low:.1f} .. {high:.1f})"

    for name, text in zip(("public", "itp"), printed, strict=True):
        rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        for row in rows:
            of = f"{name}.{row['follow']:g}.{row['arm']}"
            found.values |= {
                f"{of}.gain_min": round(row["gain_s"] / 60, 1), f"{of}.submissions": row["submissions"],
                f"{of}.wait_min": round(row["mean_wait_movers_s"] / 60, 1),
            }  # fmt: skip
        for share in dict.fromkeys(row["follow"] for row in rows):
            mine = [row for row in rows if row["follow"] == share]
            race = next(row["gain_s"] for row in mine if row["arm"] == "race_all")
            found.values |= {
                f"{name}.{share:g}.{row['arm']}.of_race_all": round(row["gain_s"] / race, 3) for row in mine
            }
            found.blocks[f"{name}-{share * 100:.0f}"] = table(
                "way to choose | mean wait, min | shorter than at home, min | others wait longer, min | submissions",
                [
                    (row["arm"], f"{row['mean_wait_movers_s'] / 60:.1f}", minutes(row, "gain"),
                     minutes(row, "stayers_longer"), f"{row['submissions']:,}")
                    for row in mine
                ],
            )  # fmt: skip
    return found


def read_order_rules(printed: list[Any], _: Path) -> Figures:
    """Read the tables of order_on_logs.py: each order on each log, then geometric means."""
    first, _, second = printed[0].partition("\n\n")
    rows, means = cells_of(first.splitlines()), cells_of(second.splitlines())
    values = {f"{row['order']}.{name}": row[name] for row in means for name in row if name != "order"}
    found = Figures({name.replace(", ", "_").replace(" ", "_"): value for name, value in values.items()})
    orders = list(dict.fromkeys(row["order"] for row in rows))
    by_log = {
        log: {row["order"]: row for row in rows if row["log"] == log} for log in dict.fromkeys(r["log"] for r in rows)
    }
    found.blocks["waits"] = table(
        " | ".join(("log", "mean wait by arrival, h", *orders)),
        [
            (log, row[orders[0]]["wait by arrival, h"], *(row[one]["wait"] for one in orders))
            for log, row in by_log.items()
        ],
    )
    found.blocks["rule"] = table(
        "log | change from arrival | from limits | from limits with planned lengths | slowdown | p99 | longest",
        [(log, *(row["rule"][name].split(":")[0] for name in ("from arrival", "from limits", "from limits, lengths")),
          *(row["rule"][name] for name in ("slowdown", "p99", "longest"))) for log, row in by_log.items()],
    )  # fmt: skip
    found.blocks["means"] = table(
        "order | mean wait | slowdown | longest wait | largest of seven | logs ahead, behind",
        [(row["order"], *(row[name] for name in ("wait", "slowdown", "longest", "longest, most",
                                                 "ahead, behind from limits")))
         for row in means if row["order"] != "rule, reserved"],
    )  # fmt: skip
    return found


def read_order_bounds(printed: list[Any], _: Path) -> Figures:
    """Read the table of order_on_logs.py with and without the bounds on gaming."""
    found, rows = Figures(), []
    for row in cells_of(printed[0].splitlines()):
        order = row["order"].replace(" ", "_")
        found.values |= {f"{row['log']}.{order}.wait": float(row["wait"])}
        for name in ("unbounded", "any history"):
            if match := INTERVAL.match(row[f"from {name}"]):
                words = zip(("change", "low", "high"), match.groups())
                named = {f"{row['log']}.{order}.from_{name.replace(' ', '_')}.{word}": text for word, text in words}
                found.values |= {key: float(text) for key, text in named.items()}
        if row["order"] == "quantile":  # with all bounds
            changes = (row[f"from {name}"].split(":")[0] for name in ("limits", "unbounded", "any history"))
            rows.append((row["log"], row["wait"], *changes))
    head = "log | mean wait | change from time limits | from no bounds | from share and overruns"
    found.blocks["table"] = table(head, rows)
    return found


def read_order_gamed(printed: list[Any], _: Path) -> Figures:
    """Read the table of order_gamed.py: what long jobs gain over time limits, in minutes, by bounds."""
    found, rows = Figures(), []
    for row in cells_of(printed[0].splitlines()):
        cells: list[str] = []
        for way in ("gamed", "changed"):
            for name in ("over limits", "of the first", "of the last"):
                cell = row[f"{way}: {name}"]
                match = INTERVAL.match(cell)
                assert match is not None, cell
                named = f"{row['order, bounds']}.{way}.{name}".replace(" ", "_")
                found.values |= {f"{named}.{k}": float(v) for k, v in zip(("gain", "low", "high"), match.groups())}
                cells.append(cell)
        # the figures of each single bound are only in the values
        if row["order, bounds"] in ("no bound", "without own history", "all"):
            rows.append((row["order, bounds"], *cells[:2], *cells[3:5], row["others, honest"]))
    head = "bounds | same command | its first job | changed command | its first job | wait of honest jobs, min"
    found.blocks["table"] = table(head, rows)
    return found


def read_growth(printed: list[Any], _: Path) -> Figures:
    """Read the waits that each quarter of a log predicted for the next one, and how many recorded values its intervals
    contained."""
    cases, shown = json.loads(printed[0]), []
    held = {"mean_wait_s": 0, "wait_90_s": 0}
    for row in cases:
        cells = [f"{row['from']} to {row['to']}", f"{row['work']:+.0%}"]
        for key in held:
            low, high, recorded = (row[f"{key}_{end}"] for end in ("low", "high", "recorded"))
            held[key] += low <= recorded <= high
            cells += [f"{low / 3600:.1f} to {high / 3600:.1f}", f"{recorded / 3600:.1f}"]
        shown.append(cells)
    head = "quarters | work | mean wait foretold, h | recorded | 90 % wait foretold, h | recorded"
    values = {"cases": len(cases), **{f"{key}_held": count for key, count in held.items()}}
    return Figures(values, {"table": table(head, shown)})


def read_gpu_waits(printed: list[Any], _: Path) -> Figures:
    """Read the CRPS of `forecast` with and without its GPU features."""
    rows = [
        (row["log"], row["jobs of"], f"{row['jobs']:,}", f"{row['crps']:.3f}",
         f"{row['crps_difference']:+.3f} ({row['crps_low']:+.3f} to {row['crps_high']:+.3f})")
        for row in json.loads(printed[0])
    ]  # fmt: skip
    head = "log | jobs of | jobs | CRPS | change (90 % interval)"
    return Figures({}, {"table": table(head, rows)})


def read_lab_limits(printed: list[Any], _: Path) -> Figures:
    """Read the table of planning_gain.py: by processors, the lab and the simulated clock."""
    lines = [line for line in printed[0].splitlines() if line.startswith("|")]
    row = next(line for line in lines if line.startswith("| all |") or line.startswith("| all "))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    values: dict[str, Any] = {"jobs": int(cells[1]), "as_it_is_min": float(cells[3]), "planned_min": float(cells[4])}
    waits = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "| mean wait |" in line]
    titles = "processors | jobs | mean wait, users' limits | planned limits | change (90 % interval) | shorter by"
    shown = [(*row[:2], row[3], row[4], row[5].split(":")[0], row[6], row[9]) for row in waits]
    blocks = {"table": lines, "waits": table(f"{titles} | simulated: shorter by", shown)}
    return Figures(values | {"gain": cells[6]}, blocks)


def read_limits(documents: list[Any], _: Path) -> Figures:
    """Read suggested time limits, the usual rule and the users' limits on eight logs."""
    rows = []
    for log, document in zip(LIMITED, documents, strict=True):
        by = {row["limits"]: row for row in document["results"]}
        early = (f"{by[name]['killed_beyond_own_per_thousand']:.1f}" for name in ("advice", "rule_of_thumb"))
        unused = (f"{by[name]['over_request_core_h']:,.0f}" for name in ("advice", "rule_of_thumb", "own"))
        ends = " to ".join(f"{end:+.2f}" for end in ends_of(by["advice"], "mean_unused_core_h")[1:])
        rows.append((name_of(log), *early, *unused, ends))
    head = "log | ended early of 1,000: suggested | rule | unused core-hours: suggested | rule | users' limits"
    return Figures({}, {"table": table(f"{head} | suggested minus users', a job (90 % interval)", rows)})


def read_unlimited(documents: list[Any], _: Path) -> Figures:
    """Read the coverage of the 90 % bound of `calibrated` on GWU with and without time limits."""
    shares = (document["results"][0]["coverage_90"] for document in documents if isinstance(document, dict))
    return Figures(dict(zip(("with_share", "without_share"), (round(share, 4) for share in shares), strict=True)))


def read_memory(documents: list[Any], _: Path) -> Figures:
    """Read errors of memory predictions on two logs."""
    rows = []
    for log, document in zip((DAS2, LPC), documents, strict=True):
        for row in document["results"]:
            if row["predictor"] not in ("kernel", "recent_mean"):
                continue
            ends = ends_of(row, "mae_mib")
            against = "-" if None in ends else "{:+.2f} ({:+.2f} to {:+.2f})".format(*ends)
            bound = row.get("coverage_90")
            covers = "-" if bound is None else f"{100 * bound:.1f} %"
            cells = f"{row['jobs']:,}", f"{row['mae_mib']:.2f}", f"{row['apa']:.3f}", covers
            rows.append((name_of(log).split("-")[0], f"`{row['predictor']}`", *cells, against))
    head = "log | predictor | jobs | mean error, MiB | accuracy | 90 % bound covers"
    return Figures({}, {"table": table(f"{head} | mean error minus `recent_mean`'s (90 % interval)", rows)})


REQUESTED = {
    "DAS2": f"{DAS2} --memory --floor 1M --step 1M", "LPC": f"{LPC} --memory", "rnaseq": f"{RNASEQ} --memory",
    "chipseq": f"{CHIPSEQ} --memory", "iwd": f"{IWD} --memory",
}  # fmt: skip
RULES = {"advice": "suggested", "rule_of_thumb": "usual rule", "own": "users'"}


def read_memory_limits(documents: list[Any], _: Path) -> Figures:
    """Read memory requests: suggested, by the usual rule, and the users' own."""
    rows = []
    for log, document in zip(REQUESTED, documents, strict=True):
        for row in document["results"]:
            if row["limits"] == "least_waste":
                continue
            failed, asked, spent = (row[name] for name in ("killed_per_thousand", "asked_over_used", "spent_over_used"))
            cells = f"{failed:.1f}", f"{asked:.2f}", f"{spent:.2f}"
            rows.append((f"{log}, {row['jobs']:,}", RULES[row["limits"]], *cells))
    head = "log, jobs | requests | out of memory of 1,000 | requested / used | with second attempts"
    return Figures({}, {"table": table(head, rows)})


LIKENESS = {
    "on one processor": ("serial_share", ".3f", None), "on a power of two": ("power_of_two_share", ".3f", None),
    "median processors": ("procs_p50", ".0f", "procs"), "mean run time, s": ("mean_run_s", ",.0f", None),
    "median run time, s": ("run_time_p50_s", ",.0f", "run_time"),
    "median time limit, s": ("req_time_p50_s", ",.0f", "req_time"),
    "median time between arrivals, s": ("interarrival_p50_s", ",.0f", "interarrival"),
    "accuracy of time limits": ("apa", ".3f", "accuracy"),
    "run time like the user's last one": ("like_last_run", ".3f", "last_run_ratio"),
}  # fmt: skip


def read_likeness(documents: list[Any], _: Path) -> Figures:
    """Read a synthetic log compared with each of two real ones."""
    four, rows = documents[0]["results"], []
    for title, (name, form, distance) in LIKENESS.items():
        cells: list[str] = []
        for real, made in (four[:2], four[2:]):
            apart = "" if distance is None else f"{made[f'distance_{distance}']:.3f}"
            cells += [format(real[name], form), format(made[name], form), apart]
        rows.append((title, *cells))
    head = "quantity | CTC | synthetic | distance | SDSC-SP2 | synthetic | distance"
    return Figures({}, {"table": table(head, rows)})


def read_operator(documents: list[Any], _: Path) -> Figures:
    """Read waits of an operator's day by several methods, with and without a machine description."""
    found, rows = Figures(), []
    for part, document in zip(("plain", "machine"), documents, strict=True):
        for name, row in by_name(document).items():
            name = name.rpartition(":")[2]
            spans = row["median_abs_error_s"], row["mean_abs_error_s"]
            kept = [row.get(f"interval_{level}") for level in (80, 90)]
            found.values |= {
                f"{part}.jobs": row["jobs"],
                f"{part}.{name}.median_s": round(spans[0]),
                f"{part}.{name}.mean_s": round(spans[1]),
                f"{part}.{name}.crps": round(row["crps_log"], 2),
            }
            if None not in kept:
                named = zip((80, 90), kept, strict=True)
                found.values |= {f"{part}.{name}.kept{level}_share": round(one, 3) for level, one in named}
            shares = ("-" if one is None else f"{100 * one:.1f} %" for one in kept)
            cells = (span(one) for one in spans)
            rows.append((part, f"`{name}`", *cells, *shares, f"{row['crps_log']:.2f}"))
    head = "simulated on | predictor | median error | mean error | 80 % interval | 90 % interval | CRPS"
    found.blocks["table"] = table(head, [("processors" if row[0] == "plain" else "nodes", *row[1:]) for row in rows])
    return found


def read_first_bounds(documents: list[Any], _: Path) -> Figures:
    """Read the coverage of 90 % bounds of two run-time methods on the first jobs of logs."""
    found, rows = Figures(), []
    for log, document in zip(FIRST_JOBS, documents, strict=True):
        held = {name: row["coverage_90"] for name, row in by_name(document).items()}
        name = re.sub(r"\.(csv\.gz|parquet)$", "", log)
        found.values |= {f"{name}.{method}": round(share, 3) for method, share in held.items()}
        rows.append((name, f"{document['results'][0]['jobs']:,}", *(f"{100 * held[m]:.1f} %" for m in BOUNDS)))
    shares = {m: [found.values[key] for key in found.values if key.endswith(f".{m}")] for m in BOUNDS}
    found.values |= {f"{m}.{word}": of(shares[m]) for m in BOUNDS for word, of in (("least", min), ("most", max))}
    found.blocks["table"] = table("log | jobs | `kernel` | `calibrated`", rows)
    return found


def read_operator_day(printed: list[Any], _: Path) -> Figures:
    """Read the tables of tests/slurm/operator_day.py."""
    lines = printed[0].splitlines()
    # the page omits a method that is not a default, and a second row of the same jobs
    tables = [
        line for line in lines if line.startswith("|") and "log_uniform" not in line and "jobs of start" not in line
    ]
    found = Figures({"day": lines[0]}, {"answers": [line for line in tables if line.count("|") == 8]})
    found.blocks["limits"] = [line for line in tables if line.count("|") == 7]
    found.blocks["planning"] = [line for line in tables if line.count("|") == 3]
    for line in found.blocks["answers"][2:]:
        kind, judged, kept, due, due_kept, middle, worst = (cell.strip() for cell in line.strip("|").split("|"))
        kind = kind.replace(" --", "_").replace(", ", "_")  # a mark in a page has no spaces
        found.values |= {f"{kind}.judged": int(judged), f"{kind}.kept_90": kept, f"{kind}.median_min": middle}
        found.values |= {f"{kind}.due": int(due), f"{kind}.due_kept_90": due_kept}
        found.values[f"{kind}.worst_min"] = worst
    for line in found.blocks["limits"][2:]:
        kind, compared, _, beyond, furthest, _ = (cell.strip() for cell in line.strip("|").split("|"))
        kind = kind.replace(" --", "_")
        found.values |= {f"{kind}.compared": int(compared), f"{kind}.beyond_margin": int(beyond)}
        found.values[f"{kind}.furthest_min"] = int(furthest)
    for line in found.blocks["planning"][2:]:
        what, value = (cell.strip() for cell in line.strip("|").split("|"))
        if what.startswith("calls a cycle "):
            found.values[f"calls_{what.split()[3]}"] = float(value)
    return found


def read_sizes(printed: list[Any], _: Path) -> Figures:
    """Read the output of tools/sizes.py."""
    return Figures(json.loads(printed[-1]))


def runs(selection: str) -> str:
    """Return the command for one of the ten sets."""
    return f"batchcast runtime {selection} --predictor kernel,recent_mean,last_2"


LIMITED = (KTH, SP2, CTC, DS, BLUE, HPC2N, DAS2, LPC)
RECORDED = ("backfill", "fifo", "limits", "multifactor", "reservation", "newer-backfill", "newer-reservation")
OPERATOR = "operator-day.parquet"
MIT, DICC = "mit-supercloud-2021-q1.csv.gz", "um-dicc-2022.csv.gz"
BOUNDS = "kernel", "calibrated"
FIRST_JOBS = {
    OPERATOR: "--procs-total 32", MIT: f"--map {MIT[:-7]}.map.toml --procs-total peak", THETA: "", GWU: "",
}  # fmt: skip
ARMS = "--arms none,order-limits,order,both-limits,both --against none,order-limits,both-limits"
ON_LOGS = (KTH, SP2, DS, THETA, BLUE, CTC, HPC2N)
STUDIES = (
    Study(
        "runtime-modern",
        tuple(f"batchcast runtime {log} --predictor kernel,recent_mean,requested" for log in (THETA, GWU)),
        read_modern, (THETA, GWU),
    ),
    Study(
        "runtime-soft-walltime",
        tuple(f"batchcast runtime {log} --predictor soft_walltime,recent_mean,requested" for log in SOFT),
        read_soft, SOFT,
    ),
    Study(
        "runtime-sets", tuple(runs(one) for one in SETS.values()), read_sets,
        (HPC2N, BLUE, DS, CTC, SP2, KTH, LPC, DAS2),
    ),
    Study("wait-thetagpu", (f"batchcast wait {THETA} --predictor forecast,pqstar",), read_wait, (THETA,)),
    Study(
        "evaluate-logs", tuple(f"batchcast evaluate {log} -o {name_of(log)}/" for log in EVALUATED),
        read_evaluated, EVALUATED, json=False,
    ),
    Study(
        "evaluate-graham",
        (f"batchcast evaluate {GRAHAM} --procs-total peak --policy easy -o report/",
         f"batchcast evaluate {GRAHAM} --procs-total peak --policy easy --predictor recent_mean -o simple/"),
        read_graham, (GRAHAM,), json=False,
    ),
    Study(
        "loops-sdsc-sp2",
        (f"batchcast evaluate {SP2} -o closed/", f"batchcast evaluate {SP2} -o open/ --loop open",
         "batchcast compare closed/ open/"),
        read_loops, (SP2,),
    ),
    Study(
        "validity-pools",
        tuple(
            f"batchcast simulate {log} {how}" for log in (KTH, SP2) for how in ("--policy easy", "--scheduler slurm")
        ),
        read_pools, (KTH, SP2),
    ),
    Study("what-if-answers", ("python -m benchmarks.prove usc-81",), read_answers, ("usc-81",), rerun="long"),
    Study(
        "growth-backtest", (f"python -m benchmarks.machines.growth_backtest {KTH}",), read_growth, (KTH,), rerun="long"
    ),
    Study(
        "gpu-waits", ("python -m benchmarks.gpu_waits .",), read_gpu_waits,
        (DICC, f"{DICC[:-7]}.map.toml", MIT, f"{MIT[:-7]}.map.toml"), rerun="long",
    ),
    Study(
        "published-windows", (f"python -m benchmarks.policy.published_windows {SP2} {HPC2N} --json",), read_windows,
        (SP2, HPC2N), rerun="long",
    ),
    Study(
        "interval-coverage", ("python -m benchmarks.policy.interval_coverage --logs 1000",), read_coverage, rerun="long"
    ),
    Study(
        "demo-log",
        ("""python -c "import batchcast, shutil; shutil.copy(batchcast.demo_path(), 'demo.swf.gz')" """.strip(),
         "batchcast info demo.swf.gz"),
        read_demo_log,
    ),
    Study(
        "demo-site-accuracy",
        ("python -m tools.demo_site demo.db --steady", "batchcast accuracy --store demo.db | head -7"),
        read_accuracy, json=False,
    ),
    Study(
        "operator-day-waits",
        tuple(
            f"batchcast wait {OPERATOR} --procs-total 32 --places 301:655 "
            f"--predictor forecast,recent_wait,log_uniform,qbets,benchmarks.waits.constant:FiveMinutes{more}"
            for more in ("", " --machine operator-day.machine.toml")
        ),
        read_operator, (OPERATOR, "operator-day.machine.toml"),
    ),
    Study(
        "planning-bounds",
        tuple(f"batchcast runtime {log} {how} --first 500 --predictor {','.join(BOUNDS)}".replace("  ", " ")
              for log, how in FIRST_JOBS.items()),
        read_first_bounds, (*FIRST_JOBS, f"{MIT[:-7]}.map.toml"),
    ),
    Study(
        "lab-operator-day",
        ("python tests/slurm/operator_day.py --hours 9 --speed 30 --seed 13 -o day.json",), read_operator_day,
        rerun="lab",
    ),
    Study(
        "lab-operator-day-newer",
        ("BATCHCAST_LAB=newer python tests/slurm/operator_day.py --hours 9 --speed 30 --seed 11 -o day.json",),
        read_operator_day, rerun="lab",
    ),
    Study(
        "order-kth",
        tuple(f"batchcast simulate {KTH} --scheduler slurm --order {order}" for order in ("none", "forecast")),
        read_order, (KTH,),
    ),
    *(
        Study(name, (f"{before}python benchmarks/order_gain.py --seeds 1,2,3 --jobs 300 {words} -o order.jsonl",),
              read_lab_control, rerun="lab")
        for name, before, words in (
            ("lab-order-control", "", f"--load 2 {ARMS}"),
            ("lab-order-low", "", f"--load 1.3 {ARMS}"),
            ("lab-order-default", "", f"--load 2 --padding default {ARMS}"),
            ("lab-order-newer", "BATCHCAST_LAB=newer ",
             "--load 2 --arms none,order-limits,both --against none,order-limits"),
        )
    ),
    Study(
        "order-rules", (f"python -m benchmarks.planning.order_on_logs {' '.join(ON_LOGS)} --first 15000",),
        read_order_rules, ON_LOGS, rerun="long",
    ),
    Study(
        "order-bounds",
        (f"python -m benchmarks.planning.order_on_logs {KTH} {CTC} {SP2} --first 5000 "
         '--arms "limits; unbounded; any history; quantile"',),
        read_order_bounds, (KTH, CTC, SP2),
    ),
    Study("order-gamed", ("python -m benchmarks.planning.order_gamed --seeds 1:3 --long 8",), read_order_gamed),
    Study(
        "lab-limits",
        ("python benchmarks/planning_gain.py --seeds 1,2,3 --jobs 300 --load 1.3 --speed 60 -o gain.jsonl",),
        read_lab_limits, rerun="lab",
    ),
    Study(
        "lab-limits-anew",
        ("python benchmarks/planning_gain.py --seeds 1,2,3 --jobs 300 --load 1.3 --speed 60 -o gain.jsonl",),
        read_lab_limits, rerun="lab",
    ),
    Study(
        "clusters-simulated",
        (f"python -m benchmarks.clusters.simulated {KTH} {SP2} {CTC} {HPC2N} {BLUE} --jobs 1500",
         f"python -m benchmarks.clusters.simulated {ITP} --jobs 300 --follow 1.0"),
        read_clusters, (KTH, SP2, CTC, HPC2N, BLUE, ITP),
    ),
    Study(
        "lab-clusters",
        ("python -m benchmarks.clusters.lab --seeds 1,2,3 --jobs 300 --arms home,slurm,batchcast,race "
         "-o clusters.jsonl",),
        read_lab_clusters, rerun="lab",
    ),
    Study(
        "lab-clusters-arms", ("python -m benchmarks.clusters.lab --seeds 4 --jobs 300 -o clusters.jsonl",),
        read_lab_clusters, rerun="lab",
    ),
    Study("limits-logs", tuple(f"batchcast limits {log}" for log in LIMITED), read_limits, LIMITED),
    Study(
        "bounds-gwu",
        (f"batchcast runtime {GWU} --first 60000 --predictor calibrated",
         f"zcat {GWU} | cut -d, -f1-6,8-10 | gzip > no-limits.csv.gz",
         "batchcast runtime no-limits.csv.gz --first 60000 --predictor calibrated"),
        read_unlimited, (GWU,),
    ),
    Study(
        "memory-runtime", tuple(f"batchcast runtime {log} --memory" for log in (DAS2, LPC)), read_memory, (DAS2, LPC)
    ),
    Study(
        "memory-limits", tuple(f"batchcast limits {one}" for one in REQUESTED.values()), read_memory_limits,
        (DAS2, LPC, RNASEQ, CHIPSEQ, IWD),
    ),
    Study(
        "recorded-waits",
        (f"python -m benchmarks.recorded_waits {' '.join(f'slurm/{kind}-[12]' for kind in RECORDED)}",),
        read_recorded, ("slurm",), rerun="long",
    ),
    Study("slurm-records", ("python -m benchmarks.prove slurm",), read_records, ("slurm",)),
    Study("synth-likeness", (f"batchcast synth --compare {CTC} --compare {SP2}",), read_likeness, (CTC, SP2)),
    Study("sizes", ("python -m tools.sizes",), read_sizes, rerun="long", exact=False),
)  # fmt: skip
