# SPDX-License-Identifier: Apache-2.0
"""JupyterHub's form for batchspawner, with the predicted start of each choice before submission. In
jupyterhub_config.py:

    from batchcast_jupyterhub import offer
    offer(c, {
        "4 cores, 8 hours": {"nprocs": "4", "runtime": "8:00:00", "memory": "8G"},
        "32 cores, 2 hours": {"nprocs": "32", "runtime": "2:00:00", "memory": "64G"},
    })

A choice gives batchspawner's own names (`req_nprocs` and so on, without `req_`). Nothing else of what a browser or a
script sends reaches the batch script. Where the service does not answer within 200 ms, the form comes without times.
Needs batchcast's client beside it: batchcast itself, or its one file as batchcast_client.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from html import escape
from typing import Any

try:
    from batchcast.client import Client
except ImportError:  # the hub's Python may have only the client, not all of batchcast
    from batchcast_client import Client

OPTIONS = {
    "nprocs": "cpus-per-task", "runtime": "time", "memory": "mem", "partition": "partition", "account": "account",
    "qos": "qos", "gres": "gres",
}  # fmt: skip
"""The options of sbatch that batchspawner's SlurmSpawner sets, by its own names."""


class Choices:
    """The three hooks of a spawner: its form, the choice in a submitted form, and that choice put into the request."""

    def __init__(self, choices: Mapping[str, Mapping[str, str]], client: Client | None = None) -> None:
        for name, asked in choices.items():
            if strange := sorted(set(asked) - set(OPTIONS)):
                raise ValueError(f"choice {name!r}: no {strange[0]!r} (accepted: {', '.join(OPTIONS)})")
        self.choices, self.client = choices, client or Client()
        self.client.starts([1])  # the service loads its models before the first user asks

    async def form(self, spawner: Any) -> str:
        """The choices, each with its start for this user."""
        asked = [_options(spawner, choice) for choice in self.choices.values()]
        user = spawner.user.name
        starts = await asyncio.get_running_loop().run_in_executor(None, self.client.starts, asked, user)
        rows = []
        for place, (name, start) in enumerate(zip(self.choices, starts)):
            when = f' <span class="text-muted batchcast-start">{escape(start.words())}</span>' if start else ""
            chosen = " checked" if place == 0 else ""
            rows.append(
                f'<div class="radio"><label><input type="radio" name="choice" value="{place}"{chosen}> '
                f"{escape(name)}{when}</label></div>"
            )
        return f'<div class="form-group"><p>What do you need?</p>{"".join(rows)}</div>'

    def chosen(self, formdata: Mapping[str, list[str]]) -> dict[str, str]:
        """Return the number of the choice in a submitted form; ValueError if there is no such choice."""
        number = (formdata.get("choice") or ["0"])[0]
        if number not in map(str, range(len(self.choices))):
            raise ValueError(f"no choice {number[:20]!r}")
        return {"choice": number}

    def request(self, spawner: Any) -> None:
        """Put the choice into the spawner's `req_` fields, and drop everything else that was sent."""
        spawner.user_options = self.chosen({"choice": [str(spawner.user_options.get("choice", "0"))]})
        for name, value in list(self.choices.values())[int(spawner.user_options["choice"])].items():
            setattr(spawner, f"req_{name}", value)


def offer(config: Any, choices: Mapping[str, Mapping[str, str]], client: Client | None = None) -> None:
    """Let every spawner of this configuration offer these choices."""
    offered = Choices(choices, client)
    config.Spawner.options_form = offered.form
    config.Spawner.options_from_form = offered.chosen
    config.Spawner.pre_spawn_hook = offered.request


def _options(spawner: Any, choice: Mapping[str, str]) -> dict[str, str]:
    """Return sbatch's options of a choice; values that it omits come from the site's configuration of the spawner."""
    asked = {name: choice.get(name) or getattr(spawner, f"req_{name}", "") for name in OPTIONS}
    return {OPTIONS[name]: value for name, value in asked.items() if value}
