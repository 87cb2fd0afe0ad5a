# SPDX-License-Identifier: Apache-2.0
"""Options shared by `evaluate` and `simulate`: policies, predictors, machine and loop.

The options choose which predictors plan under which policies, on a pool of processors or on a machine's nodes under
Slurm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..errors import UsageError
from ..units import format_duration, parse_duration, parse_share
from .completion import OF_A_POLICY, specs
from .completion import policies as complete_policies
from .grammar import adds, option, parsed, typed_options
from .options import SCORE_KEYS, Log, find_modules_here
from .output import log_as_typed, show_tables

LEARNED = "learned"

if TYPE_CHECKING:
    import numpy as np

    from ..evaluation.differences import ResultRow
    from ..evaluation.validity import Validity
    from ..events.setup import RunSetup
    from ..machines.machine import Machine
    from ..report.blocks import Table
    from ..simulation import Policy
    from ..simulation.on_nodes import Ordering
    from ..simulation.own_clock import OwnPolicy


class Plan(NamedTuple):
    """The chosen predictors (if empty, each policy uses its own), the policies by name, and options of the
    simulation."""

    predictors: list[str]
    policies: dict[str, Policy | OwnPolicy]
    setup: RunSetup
    partitions: str

    def planners(self, policy: Policy | OwnPolicy | None) -> list[str]:
        """Return the predictors of a policy's schedules: the given predictors, else the policy's default predictors."""
        return self.predictors or [policy.predictor if policy is not None else "requested"]


class Accepted(click.Choice):  # type: ignore[type-arg,unused-ignore]  # generic from click 8.2 on, and we allow 8.1
    """A click choice whose error message lists the accepted words, as all messages of batchcast do."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return an accepted word, or raise a usage error."""
        if value in self.choices:
            return value
        self.fail(f"no {value!r} (accepted: {', '.join(map(str, self.choices))})", param, ctx)


def _choice(form: str, help: str, *accepted: str, name: str = "") -> Callable[..., Any]:
    """The option with these accepted words; the first word is the default."""
    return option(form, help, name, type=Accepted(accepted), default=accepted[0])


_time, _share = parsed(parse_duration), parsed(parse_share)
_ORDER = (
    option("--order WORD", "Order Slurm's queue by forecast[:NAME] or limits."),
    _choice("--order-within", "With --order: reorder jobs only within this group.", "queue", "account", "user",
            name="within"),
    option("--age TIME", "With --order: jobs that wait this long start in order of arrival.", callback=_time),
)  # fmt: skip


def plan_options(
    predictors: str | None, policies: str, ordered: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the options; `take_plan` uses their values. Each verb has its own defaults.

    `ordered` also adds the options of the queue order in Slurm's simulation, for `take_order`.
    """
    said = f"Predictors. Default: {predictors or 'requested; for forecast: kernel'}."
    return adds(
        option("--predictor NAMES", said, "predictors", shell_complete=specs("runtime"), default=predictors,
               show_default=False),
        option("--policy NAMES", f"Policies. Default: {policies}.", "policies", shell_complete=complete_policies,
               default=policies, show_default=False),
        _choice("--protocol", "honest: a prediction uses only jobs that have ended by then; paper: all earlier jobs.",
                "honest", "paper"),
        _choice("--loop", "closed: predictors learn at the simulated ends; open: at the recorded ends.",
                "closed", "open"),
        option("--plan-level Q", "Plan with this quantile of the prediction (0.9 or 90%) instead of the point.",
               callback=_share),
        option("--no-kill", "Do not end jobs at their time limit; plan with the longer of time limit and run time."),
        _choice("--wide", "Jobs larger than the machine: drop them, widen the machine, or cut the jobs.",
                "drop", "widen", "cut"),
        _choice("--partitions", "together: one machine; split: a separate machine for each partition.",
                "together", "split"),
        option("--default-request TIME", "Time limit of jobs without one. Default: the log's largest.",
               callback=_time),
        *(_ORDER if ordered else ()),
    )  # fmt: skip


def take_order(options: Mapping[str, Any], slurm: bool) -> Ordering | None:
    """Return the queue order in Slurm's simulation that the options describe.

    Raises UsageError if a word is unknown, or if an option has no effect.
    """
    words, within, age = (options[name] for name in ("order", "within", "age"))
    if slurm and words is not None:
        from ..simulation.on_nodes import Ordering  # sixty kernels

        return Ordering.of(words, within, math.nan if age is None else age)
    if words is not None:
        raise UsageError(f"--order {words} needs --machine FILE",
                         hint="for a pool: --policy forecast, or --policy easy:order=WORD")  # fmt: skip
    if within != "queue" or age is not None:
        raise UsageError("--order-within and --age need --machine FILE --order forecast")
    return None


def take_plan(options: Mapping[str, Any]) -> tuple[Plan, dict[str, Any]]:
    """Return the plan that the options describe, and the settings for the document.

    Raises UsageError for a word that is not accepted, before any simulation.
    """
    from ..events.setup import RunSetup
    from ..predict.registry import split_specs
    from ..simulation.policies import changed, policy_of, split_policies

    find_modules_here(options)
    words = {"kill": "no"} if options["no_kill"] else {}
    specs = [] if options["predictors"] is None else split_specs(options["predictors"])
    if options["predictors"] is not None and not specs:
        raise UsageError("--predictor: no name", hint="--predictor last_2,recent_mean")
    try:
        policies = {text: changed(policy_of(text), words) for text in split_policies(options["policies"])}
    except UsageError as error:
        if not error.message.startswith("--") or error.message.startswith("--policy:"):
            raise
        # the error names a setting of a policy as an option, but the setting is a part of --policy
        raise UsageError(f"--policy: {error.message[2:]}", hint=error.hint) from None
    if not policies:
        raise UsageError("--policy: no name", hint="--policy easy,easy-sjbf")
    names = ("protocol", "loop", "wide", "default_request", "plan_level")
    plan = Plan(specs, policies, RunSetup(**{name: options[name] for name in names}), options["partitions"])
    return plan, _settings(plan)


def _settings(plan: Plan) -> dict[str, Any]:
    """Return the chosen settings for the document, with the policy's settings if there is only one policy."""
    from ..simulation.policy import AGES

    alone = next(iter(plan.policies.values())) if len(plan.policies) == 1 else None
    words = {word: getattr(alone, word) for word in (*OF_A_POLICY.split(), "kill") if hasattr(alone, word)}
    for word in AGES if "head_after" in words else ():
        words[word] = None if words[word] == float("inf") else format_duration(words[word])
    options = {name: value for name, value in plan.setup.shared().items() if name != "procs"}
    if plan.setup.default_request is not None:
        options["default_request"] = format_duration(plan.setup.default_request)
    options["partitions"] = plan.partitions
    predictors = plan.predictors or list(dict.fromkeys(policy.predictor for policy in plan.policies.values()))
    return {"predictor": predictors, "policy": list(plan.policies), **options, **words, "tau_s": 10.0}


OF_A_POOL = ("policies", "no_kill", "wide", "partitions", "loop", "default_request", "plan_level")
"""Parameters of the options that only apply to a pool of processors."""


node_options = adds(
    option("--scheduler policy|slurm", "policy (pool of processors) or slurm (simulated).", metavar="WORD"),
    option("--machine FILE", "Simulate Slurm on this machine; `learned`: from LOG."),
)
"""Options for the scheduler and the machine; `take_nodes` uses their values."""


def take_nodes(options: Mapping[str, Any]) -> tuple[str, Machine | str | None]:
    """Return the scheduler (`policy` or `slurm`), and the machine: described, `learned` or None.

    Raises UsageError if an option of the pool of processors is combined with nodes.
    """
    if (options["scheduler"] or ("slurm" if options["machine"] else "policy")) != "slurm":
        if options["machine"]:
            raise UsageError("--machine only applies to --scheduler slurm", hint="leave --scheduler policy out")
        return "policy", None
    typed = typed_options(click.get_current_context())
    if wrong := [typed[name] for name in OF_A_POOL if name in typed]:
        raise UsageError(
            f"{wrong[0]} only applies to a pool of processors; a simulated Slurm uses the settings of its machine",
            hint="--scheduler policy, or `batchcast whatif --vary` (simulate: --set) for other settings",
        )
    return "slurm", described_machine(options["machine"])


def described_machine(path: str | None) -> Machine | str | None:
    """Return the machine that the option `--machine` describes; `learned` and None are returned as they are."""
    from ..trace.machine_files import open_machine

    return path if path is None or path == LEARNED else open_machine(path)


def settle(machine: Machine | str | None, log: Log, mask: np.ndarray | None) -> tuple[Any, Log, Any]:
    """Return machine, log and jobs to score. If `machine` is `learned`, the machine is learned from the first part of
    the log.

    If the machine is learned, the jobs after this part are scored, unless the user chose other jobs, and the log's
    warnings describe the machine.
    """
    if not isinstance(machine, str):
        return machine, log, mask
    from ..simulation.learned.learn import split

    learned, trace, rest = split(log.trace, log.procs)
    log = log._replace(trace=trace, warnings=[*log.warnings, *(f"learned: {line}" for line in learned.sentences())])
    log.settings["learned"] = learned.in_short()
    return learned.machine, log, mask if any(log.settings.get(key) for key in SCORE_KEYS) else rest


def show_simulation(
    tables: Sequence[Table], rows: Sequence[ResultRow], checked: Validity, total: int, options: Mapping[str, Any],
    headline: str, next_step: str,
) -> None:  # fmt: skip
    """Print simulated schedules, their differences, how far the simulation can be trusted, and the next command.

    The first table has the `rows`, one for each schedule; `total` is the processors of the machine. If the simulated
    waits are not close to the recorded waits, the next command describes the machine better.
    """
    from ..report.blocks import columns_of
    from ..report.difference import SCHEDULE, difference_blocks, with_difference
    from ..report.validity import judgement, with_judgement

    judged = judgement(checked, total, brief=not (options["details"] or options["replicates"]))
    blocks = with_judgement([with_difference(tables[0], rows, SCHEDULE), *tables[1:]], judged)
    explained = difference_blocks(rows, SCHEDULE, [tables[0].columns[0], *columns_of("predictor|planned with")])
    if options["replicates"]:  # a user who requests replicates wants to see the intervals
        blocks, explained = [*blocks, *explained], []
    if not checked.trusted:
        next_step = f"batchcast machine learn {log_as_typed()} -o machine.toml  (derives the machine)"
    show_tables(blocks, options["details"], explained, headline=headline, next_step=next_step)
