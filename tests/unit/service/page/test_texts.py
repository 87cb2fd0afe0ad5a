"""Tests that the pages show the service's sentences in the reader's language."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

from batchcast.service.answers.answer import STALE, Sentence, staleness
from batchcast.service.answers.usage import ADVICE
from batchcast.service.page.texts import language_of

PLACES = re.compile(r"%\((\w+)\)s")


@pytest.mark.parametrize("template", [*STALE, *ADVICE])
def test_every_sentence_has_a_german_text_with_the_same_places(template: str) -> None:
    german = language_of("de").say(template)
    assert german != template
    assert sorted(PLACES.findall(german)) == sorted(PLACES.findall(template))


def test_a_late_collector_is_told_of_in_the_readers_language() -> None:
    memory = {"cycle_at": 1000.0, "interval_s": 30.0, "told_until": 990.0}
    (said,) = staleness(memory, 4600.0)
    assert said == "the collector last read the queue 1 h ago: is batchcast collect running?"
    there = language_of("en").sentence(said)
    assert there == "The collector last read the queue 1\u00a0h ago: is batchcast collect running?"
    assert "ist 1\u00a0h her" in language_of("de").sentence(said)


def test_options_are_code_and_what_a_daemon_said_is_no_markup() -> None:
    advice = Sentence(ADVICE[1], asked="2 h", ran="2 s", flag="--time=00:05:00")
    assert str(advice).endswith("--time=00:05:00 would have been enough for 95 %")
    assert '<code class="flag">--time=00:05:00</code> hätte für 95 % der Jobs gereicht' in language_of("de").sentence(
        advice
    )
    away = Sentence(STALE[3], daemon="slurmctld", ago="00:01:00", error="<b>90 %(no)s</b>")
    assert "(&lt;b&gt;90 %(no)s&lt;/b&gt;)" in language_of("de").sentence(away)
    assert language_of("en").sentence("plain <text>") == "Plain &lt;text&gt;"


def test_a_sentence_is_copied_with_its_parts() -> None:
    said = Sentence(ADVICE[1], asked="2 h", ran="2 s", flag="--time=00:05:00")
    for again in (pickle.loads(pickle.dumps(said)), copy.deepcopy(said)):
        assert (again, again.template, again.values) == (said, said.template, said.values)
