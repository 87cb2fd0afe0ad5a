# SPDX-License-Identifier: Apache-2.0
"""Submits a script to the cluster with the best offer exactly once, even if the process is killed in between."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..errors import BatchcastError, InputError, NoAnswer, Unreachable
from ..formats.slurm.sbatch import parse_script
from ..store.ledger import ABSENT, MARK, REJECTED, SUBMITTED, Entry, Ledger, Offer
from ..units import span
from .configured import Cluster, run_client

SURE_AFTER_S = 60.0
"""For this many seconds after an attempt, slurmctld may still accept the job, although sbatch has ended with an error.
"""
STILL_SHOWN_S = 250.0
"""For this many seconds, squeue still shows an ended job (Slurm's default MinJobAge is 300 s). Later, only sacct shows
it.
"""
PATIENCE_S = 120.0
_MAYBE = re.compile(r"timed? ?out|unable to contact|connection|zero bytes|transport|temporarily|interrupt", re.I)
"""Error messages of sbatch after which the job may be in the queue all the same."""
_SURELY_NOT = re.compile(r"connect failure|can't be reached now|Only local cluster|No cluster '", re.I)
"""Error messages of sbatch that show that it reached no slurmctld, so that there is no job."""


class Sent(NamedTuple):
    """The result of a submission: its entry in the ledger, whether an earlier call had already submitted it, and
    problems.
    """

    entry: Entry
    again: bool = False
    notes: Sequence[str] = ()


def submit(
    ledger: Ledger,
    clusters: Mapping[str, Cluster],
    offers: Sequence[Offer],
    script: str,
    arguments: Sequence[str],
    now: float,
    tell: Callable[[str], object],
    key: str | None = None,
) -> Sent:
    """Submit to the first cluster of `offers` that accepts the job; a second call with the same `key` returns the same
    job. Each command is passed to `tell` before it runs.

    Raises NoAnswer if every cluster rejects the job, and Unreachable if an earlier attempt may have become a job and
    its cluster does not answer.
    """
    # Each attempt is in the ledger before sbatch runs, so that a later call finds an attempt whose process was killed.
    try:
        text = Path(script).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"{script}: cannot be read: {error.strerror}", hint="give the script for sbatch") from None
    words = "\0".join([os.path.abspath(script), *arguments, text, key or ""])
    digest = hashlib.sha256(words.encode(errors="replace")).hexdigest()[:32]
    best = list({offer.cluster: offer for offer in reversed(offers)}.values())[::-1]
    notes: list[str] = []
    with ledger.alone() as lock:
        if found := _earlier(ledger, clusters, digest, key, now):
            return Sent(found, again=True)
        for k, offer in enumerate(best):
            token = secrets.token_hex(8)
            command, stdin = _command(offer.command, text, script, arguments, token)
            ordered = [offer, *best[:k], *best[k + 1 :]]
            entry = Entry(token, key, now, digest, os.path.abspath(script), offer.cluster, command, ordered)
            ledger.add(entry)
            tell(f"{offer.cluster}: {shlex.join(command)}{f' < {shlex.quote(script)}' if stdin else ''}")
            job_id, said = _run(command, stdin, lock)
            if job_id:
                ledger.note(token, SUBMITTED, job_id)
                return Sent(entry._replace(state=SUBMITTED, job_id=job_id), notes=notes)
            if _MAYBE.search(said) and not _SURELY_NOT.search(said):
                raise Unreachable(
                    f"{entry.cluster}: sbatch failed ({said}), and the job may be in the queue nevertheless",
                    hint="run the same command again in a minute: it first looks for the job",
                )
            ledger.note(token, REJECTED, answer=said)
            notes.append(f"{entry.cluster} rejected the job: {said}")
    raise NoAnswer("no cluster accepted the job: " + "; ".join(notes), hint="sbatch --test-only shows the reason")


def _earlier(ledger: Ledger, clusters: Mapping[str, Cluster], digest: str, key: str | None, now: float) -> Entry | None:
    """Return the entry of an earlier attempt that became a job. The entries of attempts without a job are closed."""
    if key and (known := ledger.of_key(key)) is not None and known.state == SUBMITTED:
        return known
    for entry in ledger.unanswered(digest):
        if job_id := look_up(entry, clusters.get(entry.cluster), now):
            ledger.note(entry.token, SUBMITTED, job_id)
            return entry._replace(state=SUBMITTED, job_id=job_id)
        ledger.note(entry.token, ABSENT)
    return None


def look_up(entry: Entry, cluster: Cluster | None, now: float) -> str:
    """Return the id of the job whose comment contains an entry's token; empty if there is certainly no such job.

    Raises Unreachable if it is uncertain whether there is such a job. Then the caller must not submit the script,
    because the script could run twice.
    """
    if cluster is None:
        raise Unreachable(
            f"an earlier attempt went to {entry.cluster}, which is no [[cluster]] any more: whether the job is in "
            "the queue there is unknown",
            hint=f"look for {MARK}{entry.token} in the job comments there; batchcast submit --forget {entry.token}",
        )
    queue = _ask(cluster, "squeue", "--me", "--all", "--states=all", "--noheader", "--format=%A=%k")
    if job_id := _with_token(queue, entry.token, "="):
        return job_id
    since = f"--starttime=uts{entry.at - 3600:.0f}"
    age = now - entry.at
    if age < SURE_AFTER_S:
        raise Unreachable(
            f"an earlier attempt to submit to {entry.cluster} may not be complete yet",
            hint=f"run the same command again in {SURE_AFTER_S - age:.0f} s",
        )
    if age <= STILL_SHOWN_S:
        return ""
    past = _ask(cluster, "sacct", "-X", "-n", "-P", since, "--format=JobIDRaw,Comment")
    if job_id := _with_token(past, entry.token, "|"):
        return job_id
    if "job_comment" not in _ask(cluster, "scontrol", "show", "config"):
        raise Unreachable(
            f"an earlier attempt to submit to {entry.cluster} {span(age)} ago may have run, and its accounting keeps "
            "no comments",
            hint=f"sacct -S uts{entry.at:.0f} shows it; batchcast submit --forget {entry.token} if it is not there",
        )
    return ""


def _with_token(text: str, token: str, apart: str) -> str:
    """Return the job id of the line whose comment contains the token."""
    lines = (line.partition(apart) for line in text.splitlines())
    return next((job_id.strip() for job_id, _, comment in lines if MARK + token in comment), "")


def _ask(cluster: Cluster, program: str, *arguments: str) -> str:
    """Return the output of a Slurm client; Unreachable if it fails."""
    try:
        return cluster.ask(program, *arguments, timeout_s=PATIENCE_S)
    except Unreachable as error:
        what = f"{cluster.name} does not report whether an earlier attempt is in its queue"
        raise Unreachable(f"{what}: {error.message}") from None


def _run(command: Sequence[str], stdin: str, lock: int) -> tuple[str, str]:
    """Run sbatch; return the job id, or an empty id and sbatch's error message.

    sbatch inherits the ledger's lock. If this process is killed, the lock stays until sbatch has ended, so that a
    second call cannot submit the script at the same time.
    """
    os.set_inheritable(lock, True)
    try:
        done = run_client(command, PATIENCE_S, input=stdin, pass_fds=(lock,))
    except subprocess.TimeoutExpired:
        return "", f"timed out after {PATIENCE_S:g} s"
    except OSError as error:
        return "", f"{command[0]} cannot be run: {error.strerror}"
    finally:
        os.set_inheritable(lock, False)
    job_id = done.stdout.strip().partition(";")[0]
    if done.returncode == 0 and re.fullmatch(r"\d+", job_id):
        return job_id, ""
    said = " ".join((done.stderr or done.stdout).split()) or f"exit {done.returncode}"
    return "", f"connection of ssh: {said}" if done.returncode == 255 else said


def _command(offered: str, text: str, script: str, arguments: Sequence[str], token: str) -> tuple[list[str], str]:
    """Return the submit command and the text for its stdin.

    Over ssh, the content of the script is sent as stdin, because its path may not exist on the remote host. The words
    are quoted, because the remote shell splits them again.
    """
    words, options = shlex.split(offered), parse_script(text).options
    comment = f"{options.get('comment', '')} {MARK}{token}".strip()  # after the script's own comment, if any
    more = ["--parsable", f"--comment={comment}"]
    if os.path.basename(words[0]) != "ssh":
        return [*words, *more, script, *arguments], ""
    if arguments:
        hint = "write the arguments into the script"
        raise InputError("a script that is sent over ssh takes no arguments", hint=hint)
    if "job-name" not in options:
        more.append(f"--job-name={os.path.basename(script)}")
    at = words.index("sbatch")
    return [*words[: at + 1], *(shlex.quote(word) for word in [*words[at + 1 :], *more])], text


def forget(ledger: Ledger, token: str) -> None:
    """Record that the attempt with this token did not become a job, after the user has checked the queue."""
    known = {entry.token for entry in ledger.unanswered()}
    if token not in known:
        raise BatchcastError(f"no open submission {token!r} (open: {', '.join(sorted(known)) or 'there is none'})")
    ledger.note(token, ABSENT)
