"""What every verb shares: options under headings, and spellings of before that still work for one version."""

from __future__ import annotations

from collections.abc import Sequence

import click

from .output import say

HEADINGS = {
    "Read": "format map strict timezone procs procs_total private clean known_at_submit",
    "Select": "since until status partition queue user first score_from score_to score_status score_jobs",
    "Plan": "predictors policies machine model settings protocol plan_level loop",
    "Details": "wide partitions default_request no_kill against seed replicates explain every_column schedule_format",
}
"""Options of verbs that read a log, by the names that click gives them; what is not named here leads."""

OLD = {
    "evaluate": {"--scheduler": "--model", "--runtime": "--predictor"},
    "install": {"--private": "--private-store"},
    "migrate": {"--to": "--to-version"},
    "plan": {"--on": "--resume"},
    "purge": {"--keep": "--keep-days"},
    "run": {"--memory": "--worker-memory"},
    "simulate": {"--scheduler": "--model", "--runtime": "--predictor"},
    "start": {"--by": "--done-by"},
    "synth": {"--procs": "--procs-total"},
    "wait": {"--jobs": "--score-jobs"},
}
"""By verb, the options that had another name until this version."""


class Verb(click.Command):
    """A command whose help parts its options by what they are for, and which takes older spellings with a warning."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, of options spelled as they are now."""
        return super().parse_args(ctx, respelled(str(ctx.info_name), args))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Under headings where the verb reads a log, else in one list."""
        if not any(isinstance(each, click.Argument) and each.name == "log" for each in self.params):
            return super().format_options(ctx, formatter)
        heading = {name: title for title, names in HEADINGS.items() for name in names.split()}
        lines: dict[str, list[tuple[str, str]]] = {"Options": [], **{title: [] for title in HEADINGS}}
        for each in self.get_params(ctx):
            record = None if isinstance(each, click.Argument) else each.get_help_record(ctx)
            if record is not None:
                lines[heading.get(str(each.name), "Options")].append(record)
        for title, records in lines.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
        return None


def respelled(verb: str, args: Sequence[str]) -> list[str]:
    """The words of a command line with older options spelled as they are now; each is said once, on stderr.

    >>> respelled("runtime", ["a.swf", "--first=9"])
    ['a.swf', '--first=9']
    """
    old, open_end = OLD.get(verb, {}), True
    words: list[str] = []
    for word in args:
        name, equals, value = word.partition("=")
        open_end = open_end and word != "--"
        if open_end and name in old:
            say(f"note: {name} is {old[name]} now; the older name goes with the next version")
            value = {"policy": "pool"}.get(value, value) if old[name] == "--model" else value
            word = f"{old[name]}{equals}{value}"
        elif words and words[-1] == "--model" and word == "policy":
            word = "pool"
        words.append(word)
    return words
