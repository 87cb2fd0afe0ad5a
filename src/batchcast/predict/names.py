"""What a method is called where people read: in tables, pages and sentences. Options and JSON keep the spec."""

from __future__ import annotations

from collections.abc import Iterable

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


def method_names(specs: Iterable[str]) -> dict[str, str]:
    """The names of methods that stand side by side: with their settings only where two have the same name.

    >>> method_names(["actual", "last_2", "kernel:k=5", "kernel"])
    {'actual': 'perfect knowledge', 'last_2': 'last_2', 'kernel:k=5': 'kernel, k=5', 'kernel': 'kernel'}
    """
    known = dict.fromkeys(specs)
    short = [method_name(spec) for spec in known]
    return {
        spec: f"{name}, {settings}" if short.count(name) > 1 and (settings := name_and_settings(spec)[1]) else name
        for spec, name in zip(known, short)
    }
