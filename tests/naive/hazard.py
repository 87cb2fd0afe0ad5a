"""A slow reference version of a job's features at submission, each computed from the plain list of earlier events."""

from __future__ import annotations

import math

from batchcast.predict.hazard.history_features import KINDS, RATES, START_KINDS
from batchcast.predict.hazard.queue_features import AGES_S, GROUPS
from batchcast.predict.runtime.kernel import LEVELS

from .waits import forward_start

LEARNS, NAN = {"fast": 0.25, "slow": 0.05, "quick": 0.1, "instant": 0.1}, math.nan


def size_class(value):
    return 0 if not value > 0 else 1 + min(math.ceil(math.log2(max(value, 1.0)) - 1e-9), 30)


def log1(value):
    return math.log1p(value) if value > 0 else 0.0


def run_at(job, level):
    """Return the run time at a quantile level: linear between 0 s, the quantiles, and the limit."""
    top = max(job["limit"], 1.0)
    if job["quantiles"] is None:
        return level * top
    xs = [0.0, *(min(q, top) for q in job["quantiles"]), top]
    ps = [0.0, *LEVELS, 1.0]
    for k in range(1, len(xs)):
        if level < ps[k] or k == len(xs) - 1:
            return xs[k - 1] + (xs[k] - xs[k - 1]) * (level - ps[k - 1]) / (ps[k] - ps[k - 1])
    raise AssertionError


def share_by(job, elapsed):
    """Return the share of run times up to `elapsed`, from the same points."""
    top = max(job["limit"], 1.0)
    if elapsed <= 0 or elapsed >= top:
        return float(elapsed >= top)
    if job["quantiles"] is None:
        return elapsed / top
    xs, ps = [0.0, *(min(q, top) for q in job["quantiles"]), top], [0.0, *LEVELS, 1.0]
    k = next(k for k in range(1, len(xs)) if elapsed < xs[k])
    return ps[k - 1] + (ps[k] - ps[k - 1]) * (elapsed - xs[k - 1]) / (xs[k] - xs[k - 1])


def left(job, now):
    """Return the remaining seconds of a job: the median of its run times above the elapsed time, minus the elapsed
    time."""
    elapsed = max(now - job["start"], 0.0) if "start" in job else 0.0
    gone = share_by(job, elapsed)
    return 31.0 if gone >= 1 else max(run_at(job, gone + 0.5 * (1 - gone)) - elapsed, 1.0)


def classes(job):
    """Return the job's class for each kind of class (by size, user, queue, ...); None if a name is unknown."""
    size, limit = size_class(job["procs"]), size_class(job["limit"] / 60.0)
    user, queue, group = job["user"], job["queue"], job["group"]
    gpu_type = job["gpu_type"] if job["gpus"] else None
    names = {
        "all": (), "size": size, "limit": limit, "size_limit": (size, limit), "user": user,
        "user_size_limit": (user, size, limit), "queue": queue, "queue_size": (queue, size), "group": group,
        "gpu_type": gpu_type,
    }  # fmt: skip
    return {kind: names.get(kind) for kind in KINDS}


def seen(job, story, size):
    """Return every feature by name; `story` has the earlier events as (time, kind, job), with `wait` in the job once it
    started."""
    now = job["submit"]
    queue = [j for t, kind, j in story if kind == "submit" and not any(k != "submit" and o is j for _, k, o in story)]
    running = [j for t, kind, j in story if kind == "start" and not any(k == "end" and o is j for _, k, o in story)]
    free = max(size - sum(j["procs"] for j in running), 0.0)
    return {
        **of_job(job, now, size), **of_running(job, running, now, free), **of_queue(job, queue, now, free),
        **of_past(job, story, now, size), **of_gpus(job, story), **planned(job, queue, running, now, size),
    }  # fmt: skip


def of_gpus(job, story):
    """GPUs of the job's type; free GPUs are counted from the most that were ever busy at one time."""
    busy = most = 0
    for _, kind, j in story:
        if kind != "submit" and j["gpus"] and job["gpu_type"] in (None, j["gpu_type"]):
            busy += j["gpus"] if kind == "start" else -j["gpus"]
            most = max(most, busy)
    free = most - busy if most else NAN
    values = {"busy": busy, "free": free, "lacking": job["gpus"] - free}
    return {f"gpus: {name}": value if job["gpus"] else NAN for name, value in values.items()}


def of_job(job, now, size):
    runs = {f"run time, {100 * level:g} %": log1(run_at(job, level)) for level in (0.1, 0.5, 0.9)}
    return {
        "processors": log1(job["procs"]), "limit": log1(job["limit"]), "area": log1(job["procs"] * job["limit"]),
        "share of the machine": job["procs"] / size, "hour": now / 3600.0 % 24.0, "weekday": now // 86400.0 % 7.0,
        **runs, "run time over limit": runs["run time, 50 %"] - log1(job["limit"]),
        "time waited": log1(now - job["submit"]),
    }  # fmt: skip


def of_running(job, running, now, free):
    busy = sum(j["procs"] for j in running)
    elapsed = [max(now - j["start"], 0.0) for j in running]
    by_limit = [max(j["limit"] - e, 1.0) for j, e in zip(running, elapsed)]
    by_forecast = [left(j, now) for j in running]
    own = [k for k, j in enumerate(running) if j["user"] == job["user"]]

    def freed(ends, span):
        return log1(sum(j["procs"] for j, end in zip(running, ends) if end <= span))

    def shadow(ends):
        lacking, time = job["procs"] - free, 0.0
        for end, j in sorted(zip(ends, running), key=lambda pair: pair[0]):
            if lacking > 0:
                lacking, time = lacking - j["procs"], end
        return NAN if lacking > 0 else log1(time)

    return {
        "running": log1(len(running)), "busy": log1(busy), "free": log1(free), "lacking": job["procs"] - free,
        "free share": free / max(free + busy, 1.0), "fits": float(job["procs"] <= free),
        "remaining work by limits": log1(sum(j["procs"] * s for j, s in zip(running, by_limit))),
        "remaining work by forecasts": log1(sum(j["procs"] * s for j, s in zip(running, by_forecast))),
        "oldest run": log1(max(elapsed, default=0.0)),
        "mean run": log1(sum(elapsed) / len(elapsed)) if elapsed else NAN,
        "overdue": log1(sum(j["limit"] - e <= 0 for j, e in zip(running, elapsed))),
        **{f"freed in {s / 60:g} min by forecasts": freed(by_forecast, s) for s in (600.0, 3600.0, 14400.0, 86400.0)},
        **{f"freed in {s / 60:g} min by limits": freed(by_limit, s) for s in (600.0, 3600.0, 14400.0, 86400.0)},
        "own running": log1(len(own)), "own processors": log1(sum(running[k]["procs"] for k in own)),
        "own work left": log1(sum(running[k]["procs"] * by_forecast[k] for k in own)),
        "own next end": log1(min(by_forecast[k] for k in own)) if own else NAN,
        "account's running": log1(sum(j["group"] == job["group"] for j in running)),
        "queue's processors": log1(sum(j["procs"] for j in running if j["queue"] == job["queue"])),
        "started in the last hour": log1(sum(e <= 3600.0 for e in elapsed)),
        "shadow by limits": shadow(by_limit), "shadow by forecasts": shadow(by_forecast),
    }  # fmt: skip


def of_queue(job, queue, now, free):
    def smaller(j):
        return j["procs"] <= job["procs"]

    members = dict(
        zip(
            GROUPS,
            (
                queue,
                [j for j in queue if smaller(j) and j["limit"] <= job["limit"]],
                [j for j in queue if j["procs"] >= job["procs"] and j["limit"] >= job["limit"]],
                [j for j in queue if smaller(j)],
                [j for j in queue if j["user"] == job["user"]],
                [j for j in queue if j["group"] == job["group"]],
                [j for j in queue if j["queue"] == job["queue"]],
                [j for j in queue if j["procs"] <= free],
            ),
        )
    )
    features = {}
    for name, jobs in members.items():
        ages = [now - j["submit"] for j in jobs]
        features |= {
            f"queue: {name}: jobs": log1(len(jobs)),
            f"queue: {name}: processors": log1(sum(j["procs"] for j in jobs)),
            f"queue: {name}: work": log1(sum(j["procs"] * j["limit"] for j in jobs)),
            f"queue: {name}: mean age": log1(sum(ages) / len(ages)) if ages else NAN,
            f"queue: {name}: oldest": log1(max(ages)) if ages else NAN,
            f"queue: {name}: youngest": log1(min(ages)) if ages else NAN,
        }
    work = [j["procs"] * max(run_at(j, 0.5), 1.0) for j in queue]
    head = queue[0] if queue else None
    return {
        **features,
        **{f"queue: waiting over {a / 60:g} min": log1(sum(now - j["submit"] > a for j in queue)) for a in AGES_S},
        "queue: work forecast": log1(sum(work)),
        "queue: forecast work of no larger": log1(sum(w for w, j in zip(work, queue) if smaller(j))),
        "head: age": log1(now - head["submit"]) if head else NAN,
        "head: processors": log1(head["procs"]) if head else NAN,
        "head: limit": log1(head["limit"]) if head else NAN,
        "head: processors over free": head["procs"] - free if head else NAN,
    }


def of_past(job, story, now, size):
    features, mine = {}, classes(job)
    lessons = [(t, j) for t, kind, j in story if kind == "start"]
    for kind in KINDS:
        like = [(t, j["wait"]) for t, j in lessons if mine[kind] is not None and classes(j)[kind] == mine[kind]]
        kept = {"fast": NAN, "slow": NAN, "quick": NAN, "instant": NAN}
        for _, wait in like:
            new = {"fast": log1(wait), "slow": log1(wait), "quick": float(wait <= 3600), "instant": float(wait <= 60)}
            kept = {n: new[n] if v != v else v + LEARNS[n] * (new[n] - v) for n, v in kept.items()}
        values = (log1(like[-1][1]) if like else NAN, *kept.values(), log1(now - like[-1][0]) if like else NAN)
        words = ("last wait", "mean of 4 waits", "mean of 20 waits", "share within 1 h", "share within 1 min", "since")
        features |= {f"{kind}: {word}": value for word, value in zip(words, values)}
    before = [t for t, kind, j in story if kind == "submit"]
    own = [t for t, kind, j in story if kind == "submit" and j["user"] == job["user"]]
    features["last submission"] = log1(now - before[-1]) if before else NAN
    features["user's last submission"] = log1(now - own[-1]) if own else NAN
    return features | of_starts(job, lessons, now) | rates(story, now, size)


def of_starts(job, lessons, now):
    p, q = job["procs"], job["limit"]
    counts = (
        lambda j: j["procs"] >= p and j["limit"] >= q,
        lambda j: j["procs"] >= p,
        lambda j: j["procs"] <= p and j["limit"] <= q,
        lambda j: 0.5 <= j["procs"] / p <= 2 and 0.5 <= j["limit"] / q <= 2,
        lambda j: True,
    )
    features = {}
    for look, is_like in zip(START_KINDS, counts):
        like = [(t, j["wait"]) for t, j in lessons[-512:] if is_like(j)]
        last = [log1(wait) for _, wait in like[-8:]]
        features |= {
            f"starts {look}: since": log1(now - like[-1][0]) if like else NAN,
            f"starts {look}: wait": log1(like[-1][1]) if like else NAN,
            f"starts {look}: starts in 1 h": sum(now - t <= 3600.0 for t, _ in like),
            f"starts {look}: starts in 1 day": sum(now - t <= 86400.0 for t, _ in like),
            f"starts {look}: mean wait of 8": sum(last) / len(last) if last else NAN,
        }
    return features


def rates(story, now, size):
    features = {}
    for span in (3600.0, 86400.0):
        amounts = dict.fromkeys(RATES, 0.0)
        busy, since = 0.0, None
        for t, kind, j in story:
            faded = math.exp(-(now - t) / span)
            if since is not None:
                amounts["busy"] += busy * (faded - math.exp(-(now - since) / span))
            since = t
            busy += {"submit": 0.0, "start": j["procs"], "end": -j["procs"]}[kind]
            amounts[{"submit": "submissions", "start": "starts", "end": "ends"}[kind]] += faded
            amounts["submitted work"] += faded * j["procs"] * j["limit"] if kind == "submit" else 0.0
        if since is not None:
            amounts["busy"] += busy * (1.0 - math.exp(-(now - since) / span))
        for rate, amount in amounts.items():
            features[f"{rate} in {span / 3600:g} h"] = amount / size if rate == "busy" else log1(amount)
    return features


def planned(job, queue, running, now, size):
    """Run the forward simulations that draw no random number: by limits, and by medians."""
    features = {}
    for name, length in (("limits", lambda j: j["limit"]), ("forecasts", lambda j: max(run_at(j, 0.5), 1.0))):
        ends = [
            (j["procs"], left(j, now) if name == "forecasts" else max(j["limit"] - max(now - j["start"], 0.0), 1.0))
            for j in running
        ]
        queued = [(j["procs"], length(j)) for j in (*queue, job)]
        start = forward_start(max(size, sum(p for p, _ in ends)), ends, queued, "easy")
        features[f"planned by {name}"] = log1(start) if start < math.inf else NAN
    return features
