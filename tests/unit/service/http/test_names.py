"""Tests with a thousand questions per kind of store that on a private site no user's name reaches another user."""

from __future__ import annotations

import random
import re
from urllib.parse import quote

import pytest

from batchcast.service.answers.disclosure import Viewer
from batchcast.service.collector.cycle import Collector
from batchcast.service.http import api
from batchcast.service.settings import load
from batchcast.store.database import Store

from .past import USERS, Past

QUESTIONS = 1000
WORDS = {
    "user": [*USERS, "user*", "*", "", "nobody"],
    "job": [*(str(100 + k) for k in range(0, 60, 7)), *(str(200 + k) for k in range(6)), "1,2", "x"],
    "name": ["relax", "*", "user1"],
    "account": ["", "*", "user2"],
    "partition": ["main", "none", "*"],
    "starttime": ["uts0", "now-1hour", "user3"],
    "endtime": ["uts9999999999", "now"],
    "ntasks": ["4", "0", "user4"],
    "time": ["1:00:00", "user5"],
    "risk": ["5%", "0.5"],
    "by": ["user", "account", "name"],
    "where": ["1", "yes"],
}


def drawn(rng: random.Random, places: list[str]) -> str:
    """A question: a path and some of the parameters that any path knows."""
    names = rng.sample(sorted(WORDS), rng.randint(0, 4))
    query = "&".join(f"{name}={quote(rng.choice(WORDS[name]))}" for name in names)
    return rng.choice(places) + (f"?{query}" if query else "")


@pytest.mark.long
def test_a_thousand_questions_name_nobody_else(url: str) -> None:
    past = Past(private=True)
    settings = load(
        {"store": url, "history_days": 0.01, "runtime": "recent_mean", "limits": "", "wait": "recent_wait"}, {}
    )
    collector = Collector(past, Store(url, create=True), settings)
    for past.time in range(1000, 2710, 60):
        assert not collector.cycle().problems
    rng = random.Random(7)
    places = [place for place in api.ENDPOINTS if place != "/v1/health"]
    answered = dict.fromkeys(places, 0)
    for number in range(QUESTIONS):
        user, target = USERS[number % 2], drawn(rng, places)
        reply = api.reply(settings, target, Viewer(user))
        assert reply.status < 500, target
        others = set(re.findall(r"\buser\d\b", reply.body)) - {user} - set(re.findall(r"user\d", target))
        assert not others, (user, target, reply.body[:500])
        answered[target.partition("?")[0]] += reply.status == 200
    assert sum(answered.values()) > QUESTIONS / 20, answered
    assert sum(count > 0 for count in answered.values()) >= len(places) / 2, answered
