"""`scontrol show config`, `scontrol -o show partition` and `show job` text to plain mappings. Pure."""

from __future__ import annotations

import re

_KEY = re.compile(r"(?:^|(?<=\s))([A-Z][A-Za-z0-9_:/.]*)=")


def parse_config(text: str) -> dict[str, str]:
    """`Name = value` lines by name.

    >>> parse_config("Configuration data as of x\\nMinJobAge               = 300 sec\\n")
    {'MinJobAge': '300 sec'}
    """
    pairs = (line.split("=", 1) for line in text.splitlines() if " = " in line)
    return {name.strip(): value.strip() for name, value in pairs}


def parse_records(text: str, first: str) -> list[dict[str, str]]:
    """One mapping a record of `scontrol -o`; a record begins at a line start with `first=` (JobId, PartitionName).

    A value runs to the next ` Key=`, so names with spaces survive; one that imitates ` Key=` cannot be told from it,
    which is why squeue is asked for names.

    >>> parse_records("PartitionName=main AllowGroups=ALL MaxTime=7-00:00:00\\n", "PartitionName")
    [{'PartitionName': 'main', 'AllowGroups': 'ALL', 'MaxTime': '7-00:00:00'}]
    """
    records = []
    for block in re.split(rf"(?m)^(?={re.escape(first)}=)", text):
        matches = list(_KEY.finditer(block))
        ends = [m.start() for m in matches[1:]] + [len(block)]
        if matches and matches[0][1] == first:
            records.append({m[1]: block[m.end() : end].strip() for m, end in reversed(list(zip(matches, ends)))})
    return [dict(reversed(r.items())) for r in records]
