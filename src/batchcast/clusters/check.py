# SPDX-License-Identifier: Apache-2.0
"""The checks of `batchcast doctor` for each `[[cluster]]`: answers, submit command, and bandwidth for input files."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from typing import Any

from ..errors import Unreachable
from ..formats.slurm.sbatch import Request
from ..formats.slurm.scontrol import parse_config
from ..service.answers.disclosure import Viewer
from ..service.planning.checkup import finding
from ..service.settings import Settings
from .configured import Cluster, Configured, configured
from .offers import Question, ask_all

ONE_TASK = Request({"ntasks": "1", "job-name": "batchcast-doctor"})


def check_clusters(settings: Settings, viewer: Viewer, ask: bool = True) -> Iterator[dict[str, Any]]:
    """Yield doctor's findings about each configured cluster: its answers, its submit command, its file transfers."""
    configuration = configured()
    for problem in configuration.problems:
        name, _, what = problem.partition(": ")
        yield finding(f"cluster {name}", "failed", what, "correct batchcast.toml")
    for cluster in configuration.clusters:
        yield _answers(cluster, settings, viewer)
        yield _submits(cluster, ask)
        yield _moves(cluster, configuration)


def _answers(cluster: Cluster, settings: Settings, viewer: Viewer) -> dict[str, Any]:
    """Check that the store or service of a cluster answers for this cluster within the time limit."""
    name = f"cluster {cluster.name}"
    begun = time.monotonic()
    replies, problems = ask_all(Configured([cluster], []), settings, Question(ONE_TASK), viewer, time.time())
    took = time.monotonic() - begun
    if not replies:
        what = problems[0].partition(": ")[2]
        return finding(name, "failed", what, "batchcast collect keeps its store; batchcast serve answers from it")
    late = [str(each) for each in (*replies[0].prediction.warnings, *replies[0].notes) if "assumed" not in str(each)]
    ways = len({each.change.partition for each in replies[0].prediction.results})
    fact = f"{cluster.store or cluster.service} answers in {took:.1f} s, {ways} partitions accept a job of one task"
    return finding(name, "ok", fact + (f"; it says: {late[0]}" if late else ""), "")


def _submits(cluster: Cluster, ask: bool) -> dict[str, Any]:
    """Check that the submit command of a cluster reaches the Slurm cluster of that name."""
    name = f"cluster {cluster.name}: submit"
    program = cluster.words("scontrol")[0]
    if shutil.which(program) is None:
        return finding(name, "failed", f"{program} is not installed on this computer", "correct submit in [[cluster]]")
    if not ask:
        return finding(name, "ok", cluster.submit, "")
    try:
        answered_by = parse_config(cluster.ask("scontrol", "show", "config")).get("ClusterName", "an unnamed cluster")
    except Unreachable as error:
        fact = f"{cluster.submit}: {error.message}"
        return finding(name, "failed", fact, "check that this command works in your shell")
    if answered_by.lower() != cluster.name.lower():
        fact = f"{cluster.submit} reaches {answered_by}, so jobs for {cluster.name} would go there"
        return finding(name, "failed", fact, f'submit = "sbatch -M {cluster.name}", or over ssh')
    return finding(name, "ok", f"{cluster.submit} reaches {answered_by}", "")


def _moves(cluster: Cluster, configuration: Configured) -> dict[str, Any]:
    """Check that the settings give the bandwidth to this cluster from the file system of every other cluster."""
    name = f"cluster {cluster.name}: files"
    places = {each.files_at for each in configuration.clusters} - {cluster.files_at}
    missing = sorted(places - set(cluster.bandwidth))
    if missing:
        fact = f"no bandwidth from {', '.join(missing)}: with --input from these places, {cluster.name} is not offered"
        return finding(name, "warning", fact, f'bandwidth = {{ {missing[0]} = "100M" }} in [[cluster]]')
    return finding(name, "ok", f"at {cluster.files_at}" + (", bandwidth from every other place set" if places else ""))
