# SPDX-License-Identifier: Apache-2.0
"""Translates the texts of pages, and formats times, durations and shares for them."""

from __future__ import annotations

import gettext
import math
import re
import time
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from ... import units
from ...formats.slurm.reasons import reason_parts
from ..answers.answer import Sentence

if TYPE_CHECKING:
    from markupsafe import Markup

LANGUAGES = {"en": "English", "de": "Deutsch"}
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class Language(NamedTuple):
    """One language. `say` translates an English text; `many` does so with a singular and a plural form."""

    language: str
    say: Callable[[str], str]
    many: Callable[[str, str, int], str]

    def clock(self, epoch: float | None, now: float) -> str:
        """Return a local time: the time of day if it is today, with the weekday within a week, else with the date; a
        dash if unknown.
        """
        if epoch is None or not math.isfinite(epoch):
            return "–"
        there, here = time.localtime(epoch), time.localtime(now)
        if there[:3] == here[:3]:
            return time.strftime("%H:%M", there)
        if abs(epoch - now) < 7 * 86400:
            return f"{self.day(there.tm_wday)} {time.strftime('%H:%M', there)}"
        return time.strftime("%Y-%m-%d %H:%M", there)

    def day(self, weekday: int) -> str:
        """Return a weekday's name; 0 is Monday."""
        return self.say(DAYS[weekday])

    def number(self, value: float | None, digits: int = 0) -> str:
        """Return a number with the language's separators.

        >>> language_of("de").number(12345.6, 1), language_of("en").number(12345.6)
        ('12.345,6', '12,346')
        """
        if value is None or not math.isfinite(value):
            return "–"
        text = f"{value:,.{digits}f}"
        return text if self.language == "en" else text.translate(str.maketrans(",.", ".,"))

    def short(self, seconds: float) -> str:
        """Return a duration in its largest unit, for labels with little room.

        >>> language_of("en").short(50), language_of("en").short(5400), language_of("de").short(100000)
        ('1\\xa0min', '1.5\\xa0h', '1,2\\xa0d')
        """
        if seconds < 3570:
            return f"{seconds / 60:.0f}\u00a0min"
        value, unit = (seconds / 3600, "h") if seconds < 86400 else (seconds / 86400, "d")
        return f"{self.number(value, 1 if value < 9.95 else 0)}\u00a0{unit}"

    def sentence(self, text: str) -> Markup:
        """Return a sentence of an answer in this language, with a capital first letter and sbatch options as code.

        >>> language_of("en").sentence(Sentence("raise %(flag)s <b>", flag="--time"))
        Markup('Raise <code class="flag">--time</code> &lt;b&gt;')
        """
        from markupsafe import Markup, escape

        if not isinstance(text, Sentence):
            return escape(capitalized(text))
        values = {
            name: Markup('<code class="flag">{}</code>').format(value) if value[:1] == "-" else unparted(value)
            for name, value in text.values.items()
        }
        said = escape(capitalized(self.say(text.template)))
        return said % values if values else said

    def reason(self, reason: str, words: str) -> str:
        """Return the explanation of Slurm's reason in this language. `words` is the explanation in English.

        >>> language_of("de").reason("QOSMaxCpuPerUserLimit", "")
        'Ein Limit der QOS für Prozessoren je Nutzer ist erreicht'
        """
        parts = reason_parts(reason)
        if parts is None:
            return capitalized(self.say(words))
        return capitalized(self.say(parts[0]) % {k: self.say(v) if v else "" for k, v in parts[1].items()})

    def share(self, value: float | None) -> str:
        """Return a share as a percentage."""
        if value is None or not math.isfinite(value):
            return "–"
        return f"{100 * value:.0f}\u00a0%" if self.language == "de" else f"{100 * value:.0f}%"


def span(seconds: float | None) -> str:
    """Return a duration as in every answer (`units.span`), with no-break spaces. Negative durations become zero.

    >>> span(59), span(3700), span(200000), span(float("nan"))
    ('59\\xa0s', '1\\xa0h 2\\xa0min', '2\\xa0d 8\\xa0h', '–')
    """
    if seconds is None or not math.isfinite(seconds):
        return "–"
    return unparted(units.span(max(seconds, 0.0)))


def unparted(text: str) -> str:
    """Return the text with no-break spaces between numbers and their units.

    >>> unparted("1 h 2 min")
    '1\\xa0h 2\\xa0min'
    """
    return re.sub(r"(?<=\d) (?=[a-z])", "\u00a0", text)


def capitalized(text: str) -> str:
    """Return the text with a capital first letter.

    >>> capitalized("jobs mit höherer Priorität")
    'Jobs mit höherer Priorität'
    """
    return text[:1].upper() + text[1:]


@cache
def language_of(language: str) -> Language:
    """Return the texts of a language; English without a catalogue."""
    place = files("batchcast").joinpath("locale")
    catalogue: gettext.NullTranslations = gettext.NullTranslations()
    if language != "en":
        with place.joinpath(language, "LC_MESSAGES", "batchcast.mo").open("rb") as file:
            catalogue = gettext.GNUTranslations(file)
    return Language(language, catalogue.gettext, catalogue.ngettext)


def choose_language(parameter: str | None, cookie: str | None, accepts: str) -> str:
    """Choose the language: as requested, else as stored in a cookie, else as the browser prefers, else English.

    >>> choose_language(None, None, "fr;q=0.9, de;q=0.8, en;q=0.1")
    'de'
    >>> choose_language("en", "de", ""), choose_language("xx", None, "")
    ('en', 'en')
    """
    wishes = []
    for part in accepts.split(",")[:20]:
        tag, _, weight = part.partition(";q=")
        try:
            wishes.append((-float(weight or 1), tag.strip().lower()[:2]))
        except ValueError:
            continue
    for name in (parameter, cookie, *(tag for _, tag in sorted(wishes))):
        if name in LANGUAGES:
            return str(name)
    return "en"
