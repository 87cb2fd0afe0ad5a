# SPDX-License-Identifier: Apache-2.0
"""What a method is called where people read: in tables, pages and sentences. Options and JSON keep the spec."""

from __future__ import annotations

FOR_PEOPLE = {"requested": "users' limits", "actual": "perfect knowledge"}
"""Methods that are no forecasts: what users ask for, and the run times themselves, which nobody has beforehand."""


def name_and_settings(spec: str) -> tuple[str, str]:
    """The name of `NAME:key=value,...`, with its class where it is a module's, and what follows it.

    >>> name_and_settings("last_2:need=2"), name_and_settings("my.methods:Mine:k=3")
    (('last_2', 'need=2'), ('my.methods:Mine', 'k=3'))
    """
    name, _, rest = spec.partition(":")
    attribute, _, settings = rest.partition(":")
    if attribute.isidentifier() and all(part.isidentifier() for part in name.split(".")):
        return f"{name}:{attribute}", settings
    return name, rest


def method_name(spec: str) -> str:
    """A method's name for people, without its settings.

    >>> method_name("requested"), method_name("forecast:window=1000,first=500"), method_name("squeue --start")
    ("users' limits", 'forecast', 'squeue --start')
    """
    name = name_and_settings(spec)[0]
    return FOR_PEOPLE.get(name, name)


def named(spec: str) -> str:
    """The same with its settings, for tables where two may differ in nothing else.

    >>> named("actual"), named("kernel:k=5")
    ('perfect knowledge', 'kernel:k=5')
    """
    return FOR_PEOPLE.get(name_and_settings(spec)[0], spec)
