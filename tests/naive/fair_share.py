"""A slow reference version of the times at which fair share lets a job pass earlier jobs: usage second by second, ranks
by a walk of the tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Who = tuple[str, str]


def ranks(tree: Mapping[str, Any], usage: Mapping[Who, float], account: str = "root") -> list[list[Who]]:
    """Return the users from the highest rank down, with equal users together. `tree`: account -> [(name, is a user,
    shares)]."""

    def used(name: str, parent: str, is_user: bool) -> float:
        if is_user:
            return usage.get((parent, name), 0.0)
        return sum(used(below, name, user) for below, user, _ in tree.get(name, []))

    def walk(accounts: Sequence[str]) -> list[list[Who]]:
        levels: dict[float, list[tuple[str, str, bool]]] = {}
        for parent in accounts:
            peers = tree.get(parent, [])
            shares = sum(share for *_, share in peers)
            total = sum(used(name, parent, user) for name, user, _ in peers)
            for name, user, share in peers:
                mine = used(name, parent, user)
                level = float("inf") if mine == 0 else (share / shares) / (mine / total)
                levels.setdefault(level, []).append((name, parent, user))
        found = []
        for level in sorted(levels, reverse=True):
            users = [(parent, name) for name, parent, user in levels[level] if user]
            found += [users] if users else []
            found += walk([name for name, _, user in levels[level] if not user])
        return found

    return walk([account])


def factors(tree: Mapping[str, Any], usage: Mapping[Who, float]) -> dict[Who, float]:
    """Return each user's rank divided by the number of users; equal users have the highest of their ranks."""
    order = ranks(tree, usage)
    count = left = sum(len(users) for users in order)
    found = {}
    for users in order:
        found |= dict.fromkeys(users, left / count)
        left -= len(users)
    return found


def passes(
    tree: Mapping[str, Any], usage: Mapping[Who, float], running: Sequence[tuple[Who, float, int]],
    waiting: Sequence[tuple[str, Who, float, float]], weights: tuple[float, float, float, float],
    period: int, until: int,
) -> dict[str, int | None]:  # fmt: skip
    """Return the seconds until each job's priority is above the priority of every job before it; 0 for the first job,
    None if this does not happen by `until`.

    `running`: user, processors, seconds to the end. `waiting`: id, user, priority and eligible seconds, in queue order.
    `weights`: of age and of fair share, the largest age, and the half-life (0: none).
    """
    by_age, by_share, max_age, half_life = weights
    usage = dict(usage)
    begin = factors(tree, usage)
    found: dict[str, int | None] = {job: None for job, *_ in waiting}
    found[waiting[0][0]] = 0
    for second in range(1, until + 1):
        left = 2.718281828459045 ** (-0.693 / half_life) if half_life else 1.0
        usage = {who: used * left for who, used in usage.items()}
        for who, procs, end in running:
            if second <= end:
                usage[who] = usage.get(who, 0.0) + procs
        if second % period:
            continue
        now = factors(tree, usage)
        value = {
            job: priority
            + by_share * (now[who] - begin[who])
            + by_age * (min((age + second) / max_age, 1) - min(age / max_age, 1))
            for job, who, priority, age in waiting
        }
        for k, (job, *_) in enumerate(waiting):
            if found[job] is None and all(value[job] > value[other] for other, *_ in waiting[:k]):
                found[job] = second
    return found
