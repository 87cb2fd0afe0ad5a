"""A slow reference version of `kernel`: lists of finished jobs, differences as dictionaries, derivatives by their
definition."""

import math

from batchcast.events.event import End, Start, Submit, Withdraw
from batchcast.events.recorded import events
from batchcast.job import name_stem
from batchcast.predict.gate import field_value
from batchcast.predict.similarity.memory import FIELD_START, FIELDS, TERM_START

NAMES = ("limit_ratio", "limit", "procs_ratio", "procs", "apart", "user", "age", "rank", "recent", "scaled")
BEGIN = dict(zip((*NAMES, *FIELDS), (*TERM_START, *FIELD_START)))
REACH = {("user",): 128, ("user", "limit"): 64, ("user", "procs"): 64, ("user", "limit", "procs"): 64, ("limit",): 16}


def log(value):
    return math.log(value) if 0 < value < 1e15 else None


def describe(job):
    known = {name: name_stem(job.job_name) if name == "name_stem" else field_value(job, name) for name in FIELDS}
    return known | {"user": job.user_id, "limit": log(job.req_time), "procs": log(job.procs), "submit": job.submit_time}


def differences(one, other):
    """Return in which fields two jobs differ, without the age of either job."""
    d = {name: float(one[name] != other[name]) for name in ("limit", "procs", *FIELDS)}
    d["apart"] = math.log(1 + abs(one["submit"] - other["submit"]) / 60)
    for name in ("limit", "procs"):
        known = one[name] is not None and other[name] is not None
        d[f"{name}_ratio"] = abs(one[name] - other[name]) if known else 0.0
    return d


def candidates(job, history):
    """Return (run time, log run time, differences) of each candidate of a job among the jobs that had ended at its
    submission."""
    chosen = {}
    for fields, reach in REACH.items():
        like = [k for k in range(len(history) - 1, -1, -1) if all(history[k][f] == job[f] for f in fields)][:reach]
        for steps, k in enumerate(like):
            chosen.setdefault(k, (steps, fields == ("user",) and steps == 0))
    found = []
    for k, (steps, recent) in chosen.items():
        other = history[k]
        d = differences(job, other) | {"scaled": 0.0, "recent": float(recent)}
        mine = other["user"] == job["user"]
        since = sum(h["user"] == job["user"] for h in history[k + 1 :])
        d["user"] = float(not mine)
        d["age"] = math.log(1 + max(job["submit"] - other["end"], 0) / 60)
        d["rank"] = math.log(1 + (since if mine else steps))
        found.append((other["run"], math.log(other["run"]), d))
        if d["limit_ratio"] > 0:
            at = max(math.log(other["run"]) + job["limit"] - other["limit"], 0.0)
            found.append((math.exp(at), at, {**d, "scaled": 1.0}))
    return found


def weights(found, theta):
    raw = [-sum(theta[name] * d[name] for name in d) for _, _, d in found]
    most = max(raw)
    total = sum(math.exp(x - most) for x in raw)
    return [math.exp(x - most) / total for x in raw], most + math.log(total)


def censored(job, now, found, w, log_sum, running, theta):
    for other in running[-1:-33:-1]:
        elapsed = now - other["start"]
        if elapsed <= 0:
            continue
        d = differences(job, other)
        mass = 0.6 * math.exp(min(-sum(theta[name] * d[name] for name in d) - log_sum, 50))
        short = [at <= math.log(max(elapsed, 1)) for _, at, _ in found]
        below = sum(x for x, s in zip(w, short) if s)
        if below > 0 and 1 - below > 1e-9:
            moved = below * mass / (1 + mass)
            w = [x * (1 - moved / below if s else 1 + moved / (1 - below)) for x, s in zip(w, short)]
    return w


def slopes(job, found, w, run):
    """Return the derivative of the CRPS with respect to theta, by its definition."""
    scale = max(math.exp(job["limit"]), 60) if job["limit"] is not None else 1e5
    t = [min(math.exp(at) / scale, 10) for _, at, _ in found]
    y = min(run / scale, 10)
    g = [abs(a - y) - sum(x * abs(a - b) for x, b in zip(w, t)) for a in t]
    mean = sum(x * a for x, a in zip(w, g))
    return {name: -sum(x * (a - mean) * d[name] for x, a, (_, _, d) in zip(w, g, found)) for name in BEGIN}


def kernel_twin(trace, protocol="honest"):
    """Return for each job its predicted (seconds, weight) pairs (None without a candidate), and theta at the end."""
    theta, squares, own = dict(BEGIN), dict.fromkeys(BEGIN, 0.0), {}
    history, running, asked, answers = [], [], {}, [None] * len(trace)
    for event in events(trace, protocol):
        job = describe(event.job)
        mine, sums = own.setdefault(job["user"], (dict.fromkeys(BEGIN, 0.0), dict.fromkeys(BEGIN, 0.0)))
        both = {name: theta[name] + mine[name] for name in BEGIN}
        if isinstance(event, Submit):
            found = asked[event.job.row] = candidates(job, history)
            if found:
                w, log_sum = weights(found, both)
                like = [other for other in running if other["user"] == job["user"]]
                w = censored(job, event.time, found, w, log_sum, like, both)
                answers[event.job.row] = [(value, x) for (value, _, _), x in zip(found, w)]
        elif isinstance(event, Start):
            running.append({**job, "row": event.job.row, "start": event.time})
        elif isinstance(event, End | Withdraw):
            running = [other for other in running if other["row"] != event.job.row]
            found = asked.pop(event.job.row)
            if isinstance(event, End) and len(found) > 1:
                for name, slope in slopes(job, found, weights(found, both)[0], max(event.run_time, 1)).items():
                    squares[name] += slope**2
                    sums[name] += slope**2
                    theta[name] -= 0.02 * slope / math.sqrt(squares[name] + 1e-12)
                    mine[name] = 0.999 * mine[name] - 0.02 * slope / math.sqrt(sums[name] + 1e-12)
            if isinstance(event, End):
                history.append({**job, "end": event.time, "run": max(event.run_time, 1.0)})
    return answers, theta
