"""What results call a user, a queue, an account: by name, or by number where the site keeps its users to itself."""

from __future__ import annotations

from ..table import Trace


def shown_names(trace: Trace, column: str) -> list[str]:
    """The categories of a nominal column as results may show them, in the order of its codes.

    Where the site is private users are numbered in the order of the log's categories, which names none of them.

    >>> from dataclasses import replace
    >>> log = Trace.from_arrays({"submit_time": [0.0, 1.0], "run_time": [5.0, 5.0], "user_id": ["ada", "bo"]})
    >>> shown_names(log, "user_id"), shown_names(log.with_info(replace(log.info, private=True)), "user_id")
    (['ada', 'bo'], ['a user (1)', 'a user (2)'])
    """
    categories = trace.nominal(column).categories
    if column == "user_id" and trace.info.private:
        return [f"a user ({number})" for number in range(1, len(categories) + 1)]
    known = trace.info.names.get(column, {})
    return [str(known.get(value, value)) for value in categories]
