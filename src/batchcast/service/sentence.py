"""Sentences that keep what they are made of, so that a page can say them in its reader's language."""

from __future__ import annotations

from collections.abc import Mapping


class Sentence(str):
    """English text like any other, with its `template` (a text of the catalogue) and the `values` put into it.

    A value that begins with `-` is an option of a command.

    >>> said = Sentence("raise %(flag)s by 5 %%", flag="--time")
    >>> said, said.template
    ('raise --time by 5 %', 'raise %(flag)s by 5 %%')
    """

    template: str
    values: Mapping[str, str]

    def __new__(cls, template: str, **values: str) -> Sentence:
        """The template filled in; without values the text as it is."""
        made = super().__new__(cls, template % values if values else template)
        made.template, made.values = template, values
        return made
