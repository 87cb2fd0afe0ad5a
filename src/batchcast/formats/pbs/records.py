# SPDX-License-Identifier: Apache-2.0
"""Parse the message of PBS accounting records: key-value pairs, requested and allocated sizes, and how the job ended.

The function `pairs_of` parses one message, `columns_of` many messages.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

_PAIR = re.compile(r"""([A-Za-z_][\w.-]*)=("[^"]*"|'[^']*'|.*?)(?=\s+[A-Za-z_][\w.-]*=|\s*$)""", re.DOTALL)
_NCPUS = re.compile(r"\bncpus=(\d{1,9})")
_SIGNALS = {"271", "265"}
"""256 + SIGTERM and 256 + SIGKILL: the job was deleted, or killed at a limit by a server without a code for that."""
_ENDINGS = {"0": "completed", "": "completed", "-29": "timeout", "-27": "out_of_memory", "-26": "out_of_memory"}
_TORQUE_ENDINGS = {"0": "completed", "": "completed", "-11": "timeout", "-10": "out_of_memory"}


def pairs_of(message: str) -> dict[str, str]:
    """Return the `key=value` pairs of a message. Quoted values keep their quotes and can contain blanks.

    PBS quotes values with blanks in ", or in ' if they contain a ". Torque does not quote values; its values end at the
    next word that looks like a key.

    Examples
    --------
    >>> pairs_of('user=ada account="a b=c" start=5')
    {'user': 'ada', 'account': '"a b=c"', 'start': '5'}
    >>> pairs_of("account=some project queue=q")["account"]
    'some project'
    """
    if not has_blank_in_quotes(message):
        try:
            return dict([word.split("=", 1) for word in message.split()])
        except ValueError:  # a word without `=`
            pass
    return dict(_PAIR.findall(message))


def asked(ncpus: str, select: str, nodes: str) -> tuple[float, float]:
    """Return the processors and GPUs that a job requested.

    Parameters
    ----------
    ncpus, select, nodes
        Values of Resource_List.ncpus, .select and .nodes.

    Returns
    -------
    procs, gpus : float
        NaN means unknown.

    Notes
    -----
    With `select` (PBS Pro), `ncpus` is the total that the server computed. Without `ncpus`, the chunks are added, with
    one processor for a chunk without a number of processors. With `nodes` (Torque), `ncpus` is often the default 1, so
    the larger of the two numbers is used.

    Examples
    --------
    >>> asked("", "2:ncpus=4:ngpus=1+ncpus=8", ""), asked("1", "", "2:ppn=8+n7#shared"), asked("6", "", "")
    ((16.0, 2.0), (17.0, 0.0), (6.0, nan))
    """
    total = number(ncpus)
    chunks = [chunk for chunk in (select or nodes).split("+") if chunk]
    if not chunks:
        return (total if total > 0 else math.nan), math.nan
    procs = gpus = 0.0
    for chunk in chunks:
        first, *rest = chunk.partition("#")[0].split(":")
        times = float(first) if re.fullmatch(r"\d{1,9}", first) else 1.0
        amounts = dict(item.partition("=")[::2] for item in (first, *rest))
        each = number(amounts.get("ncpus" if select else "ppn", ""))
        procs += times * (each if each > 0 else 1.0)
        gpu = number(amounts.get("ngpus", amounts.get("gpus", "")))
        gpus += times * (gpu if gpu > 0 else 0.0)
    if total > 0:
        procs = total if select else max(procs, total)
    return (procs if procs > 0 else math.nan), gpus


def held(vnodes: str, hosts: str) -> tuple[float, float]:
    """Return the processors and nodes that were allocated to a job.

    Parameters
    ----------
    vnodes, hosts
        Values of exec_vnode and exec_host.

    Returns
    -------
    procs, nodes : float
        NaN means unknown.

    Notes
    -----
    Processors are the ncpus of exec_vnode, else the slots of exec_host. Nodes are the distinct hosts of exec_host, else
    of exec_vnode, in which `n1[0]` and `n1[1]` are parts of one host.

    Examples
    --------
    >>> held("(n1:ncpus=4:mem=1kb)+(n2:ncpus=2+n3:ncpus=2)", "n1/0*4+n2/0*4"), held("(n1[0]:ncpus=2+n1[1]:ncpus=2)", "")
    ((8.0, 2.0), (4.0, 1.0))
    >>> held("", "n1/0*8+n2/3"), held("", "n1/0-3,6+n2/0"), held("", "n1/0+n1/1"), held("", "")
    ((9.0, 2.0), (6.0, 2.0), (2.0, 1.0), (nan, nan))
    """
    slots, names = 0.0, set()
    for part in hosts.split("+") if hosts else ():
        name, _, places = part.partition("/")
        names.add(name)
        slots += _slots(places)
    if vnodes:
        slots = float(sum(map(int, _NCPUS.findall(vnodes))))
        vnode_names = (part.strip("()").partition(":")[0] for part in vnodes.split("+"))
        names = names or {re.sub(r"\[\d+\]$", "", name) for name in vnode_names}
    return (slots or math.nan), (float(len(names)) or math.nan)


def ending(status: str, never_ran: bool, is_torque: bool, at_limit: bool) -> str:
    """Return the status word for an Exit_status.

    Parameters
    ----------
    status
        The Exit_status.
    never_ran, is_torque
        Whether the job never ran, and whether Torque wrote the record.
    at_limit
        Whether the job ran as long as its time limit.

    Returns
    -------
    str

    Notes
    -----
    Negative codes come from the server and differ between PBS Pro (-29: time limit exceeded) and Torque (-11). 256 + 15
    and 256 + 9 mean that the job was killed: by the server if the job ran until its time limit, otherwise because
    somebody deleted the job.

    Examples
    --------
    >>> ending("-29", False, False, False), ending("271", False, True, True), ending("271", False, True, False)
    ('timeout', 'timeout', 'cancelled')
    """
    if never_ran:
        return "cancelled"
    if status in _SIGNALS:
        return "timeout" if at_limit else "cancelled"
    return (_TORQUE_ENDINGS if is_torque else _ENDINGS).get(status, "failed")


def plain_id(job: str) -> str | None:
    """Return a job id without the server, in the form that batchcast sorts by; None for the parent of an array.

    Examples
    --------
    >>> plain_id("12[3].srv"), plain_id("12-4.srv"), plain_id("12.srv.org"), plain_id("12[].srv"), plain_id("R9.srv")
    ('12_3', '12_4', '12', None, 'R9')
    """
    name = job.partition(".")[0]
    if name.isdecimal():
        return name
    if "[]" in name:
        return None
    match = re.fullmatch(r"(\d+)(?:\[(\d+)\]|-(\d+))", name)
    return f"{match[1]}_{match[2] or match[3]}" if match else name


def number(text: str) -> float:
    """Return a text as a whole number; NaN if the text is not a whole number."""
    return float(text) if text.isdecimal() and len(text) < 13 else math.nan


def _slots(text: str) -> float:
    """Returns the number of slots: `0*8` means 8 slots, `0-3,6` means 5, other texts mean 1."""
    if "*" in text:
        times = number(text.partition("*")[2])
        return times if times > 0 else 1.0
    total = 0
    for piece in text.split(","):
        first, _, last = piece.partition("-")
        low, high = number(first), number(last)
        total += int(high - low) + 1 if high >= low else 1
    return float(total)


def has_blank_in_quotes(message: str) -> bool:
    """Whether a quoted value of a message contains a blank, or a quote is not closed."""
    for mark in ('"', "'"):
        at = message.find(f"={mark}")
        while at >= 0:
            end = message.find(mark, at + 2)
            if end < 0 or " " in message[at + 2 : end]:
                return True
            at = message.find(f"={mark}", end)
    return False


def columns_of(messages: Sequence[str], keys: Sequence[str]) -> dict[str, list[str]]:
    """Return the value of each key in every message, empty if a message does not have the key.

    >>> columns_of(["a=1 b=2", "a=3 b=4", "b=5"], ["a", "b"])
    {'a': ['1', '3', ''], 'b': ['2', '4', '5']}
    """
    fields = {key: [""] * len(messages) for key in keys}
    for row, message in enumerate(messages):
        pairs = pairs_of(message)
        for key in fields.keys() & pairs.keys():
            fields[key][row] = pairs[key]
    return fields
