# SPDX-License-Identifier: Apache-2.0
"""The errors a person is meant to read, one exit code each.

A message names the place (file and line), the value that was found, the forms that are accepted and the next thing
to try. Anything else that escapes is a defect of batchcast, not of its input.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_says_flags = False
_FLAG = re.compile(r"(?<![\w-])--([a-z][a-z-]*[a-z])( (?=[A-Z0-9]))?")
_ARGUMENTS = {"policy": "policies", "from": "since", "to": "until"}


@contextmanager
def flags_in_messages() -> Iterator[None]:
    """Within the command line, messages name its flags; everywhere else the arguments they stand for."""
    global _says_flags
    before, _says_flags = _says_flags, True
    try:
        yield
    finally:
        _says_flags = before


def as_arguments(text: str) -> str:
    """A message with Python's arguments in place of the command line's flags.

    >>> as_arguments("--default-request: not 'x'; try --procs-total N, or --procs-total peak")
    "default_request: not 'x'; try procs_total=N, or procs_total peak"
    """

    def argument(match: re.Match[str]) -> str:
        name = _ARGUMENTS.get(match[1], match[1].replace("-", "_"))
        return f"{name}=" if match[2] else name

    return _FLAG.sub(argument, text)


def worded(text: str) -> str:
    """A message in the words of who reads it: the command line's flags there, Python's arguments elsewhere.

    >>> worded("no zone: --timezone NAME says where the cluster stands")
    'no zone: timezone=NAME says where the cluster stands'
    """
    return text if _says_flags else as_arguments(text)


class BatchcastError(Exception):
    """Something failed and the reason is known; exit code 1."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        message, hint = worded(message), worded(hint)
        super().__init__(message if not hint else f"{message}\n  try: {hint}")
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.hint))


def _rebuild(kind: type[BatchcastError], message: str, hint: str) -> BatchcastError:
    return kind(message, hint=hint)


class InputError(BatchcastError):
    """A log, a file or a value in it cannot be used; exit code 1."""


class UsageError(BatchcastError):
    """An option, a name or a parameter is not one of the accepted forms; exit code 2."""

    exit_code = 2


class Refused(InputError):
    """The site's privacy does not let this person see that; exit code 1."""


class NoAnswer(BatchcastError):
    """The question is fine but there is nothing to answer from (unknown job, too little history); exit code 3."""

    exit_code = 3


class NoStore(NoAnswer):
    """Nobody has collected anything where it is looked for; exit code 3."""


class Unreachable(BatchcastError):
    """A scheduler, a database or a service does not answer; exit code 4."""

    exit_code = 4


def how_to_install(extra: str, only: str = "") -> str:
    """The command that brings an optional part of batchcast where this very installation stands.

    In a checkout it is that of the checkout; elsewhere the packages of the part by their own names, or that one of them
    which is all that is missing: batchcast itself is on no index, so its own name would find nothing there.
    """
    import json
    import shlex
    import sys
    from importlib.metadata import PackageNotFoundError, distribution
    from importlib.util import find_spec

    pip = f"{shlex.quote(sys.executable)} -m pip install"
    if find_spec("pip") is None:  # a venv that uv made
        pip = f"uv pip install --python {shlex.quote(sys.executable)}"
    try:
        here = distribution("batchcast")
    except PackageNotFoundError:
        return f"{pip} -e '.[{extra}]', in the checkout"
    origin = json.loads(here.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable"):
        place = str(origin["url"]).removeprefix("file://")
        return f"{pip} -e {shlex.quote(f'{place}[{extra}]')}"
    needs = [text.partition(";") for text in here.requires or ()]
    wanted = [name.strip() for name, _, when in needs if re.search(rf"extra == ['\"]{extra}['\"]", when)]
    wanted = [name for name in wanted if name.startswith(only)]
    return f"{pip} {shlex.join(wanted or [f'batchcast[{extra}]'])}"


def check_takes(method: object, who: str, form: str) -> None:
    """Refuse, by a UsageError, code of one's own that cannot be called in a form, before it is called.

    >>> check_takes([], "list", "append(job, at)")
    Traceback (most recent call last):
    batchcast.errors.UsageError: list.append takes (object, /) (accepted: append(job, at))
    """
    from inspect import signature

    name, _, parameters = form.rstrip(")").partition("(")
    try:
        called = getattr(method, name)
        takes = signature(called)
    except ValueError:  # written in C, without a signature
        return
    try:
        takes.bind(*parameters.split(", "))
    except TypeError:
        raise UsageError(f"{who}.{name}{standing_at(called)} takes {takes} (accepted: {form})") from None


def standing_at(method: object) -> str:
    """Where code of one's own stands, as ` (mine.py, line 7)`; nothing for C's and ours.

    >>> standing_at(len)
    ''
    """
    code = getattr(method, "__code__", None)
    if code is None or code.co_filename.startswith(__file__.rpartition("/")[0]):
        return ""
    return f" ({code.co_filename.rpartition('/')[2]}, line {code.co_firstlineno})"


def says_arguments(call: Callable[P, R], who: str = "") -> Callable[P, R]:
    """The same function; called with arguments that it does not take, a UsageError names those that it does.

    >>> says_arguments(lambda *, order: order, "Policy")(ordering="saf")
    Traceback (most recent call last):
    batchcast.errors.UsageError: Policy got an unexpected keyword argument 'ordering' (accepted: order)
      try: did you mean order?
    """

    @wraps(call)
    def checked(*args: P.args, **given: P.kwargs) -> R:
        try:
            return call(*args, **given)
        except TypeError:
            _check_arguments(call, who or call.__name__, args, given)
            raise

    return checked


def _check_arguments(call: Callable[..., object], who: str, args: tuple[object, ...], given: dict[str, object]) -> None:
    from difflib import get_close_matches
    from inspect import Parameter, signature

    taken = signature(call)
    try:
        taken.bind(*args, **given)
    except TypeError as error:
        names = [name for name in taken.parameters if name != "self"]
        any_name = any(p.kind is Parameter.VAR_KEYWORD for p in taken.parameters.values())
        strange = [] if any_name else [name for name in given if name not in names]
        what = f"got an unexpected keyword argument {strange[0]!r}" if strange else str(error)
        near = [best for name in strange for best in get_close_matches(name, names, 1)]
        hint = f"did you mean {near[0]}?" if near else ""
        raise UsageError(f"{who} {what} (accepted: {', '.join(names)})", hint=hint) from None


def raised_outside(error: Exception, what: str, hint: str = "") -> BatchcastError:
    """The error that code of one's own raised, with its file and line; one of ours as it is.

    >>> print(raised_outside(ZeroDivisionError("division by zero"), "Mine.predict"))
    Mine.predict raised ZeroDivisionError: division by zero
    """
    from traceback import walk_tb

    if isinstance(error, BatchcastError):
        return error
    ours = __file__.rpartition("/")[0]
    lines = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    theirs = [(file, line) for file, line in lines if not file.startswith(ours) and "importlib" not in file]
    last = [(file, line) for file, line in theirs if file == theirs[0][0]][-1:]
    place = "".join(f" ({file.rpartition('/')[2]}, line {line})" for file, line in last)
    return BatchcastError(f"{what} raised {type(error).__name__}: {error}{place}{_attributes(error)}", hint=hint)


def _attributes(error: Exception) -> str:
    """What an object of ours has, where code of one's own asked it for something else."""
    asked = getattr(error, "obj", None)
    if not isinstance(error, AttributeError) or not type(asked).__module__.startswith(f"{__package__}."):
        return ""
    names = [name for name in dir(asked) if not name.startswith("_") and not hasattr(tuple, name)]
    return f" (a {type(asked).__name__} has: {', '.join(names)})"


def input_error(
    path: str, what: str, *, line: int | None = None, value: object = None, accepted: str = "", hint: str = ""
) -> InputError:
    """An `InputError` with its parts as a person looks for them: place, what, value, accepted forms, next step.

    >>> print(input_error("a.swf", "run time is not a number", line=7, value="12x", accepted="seconds"))
    a.swf:7: run time is not a number: '12x' (accepted: seconds)
    """
    place = path if line is None else f"{path}:{line}"
    shown = "" if value is None else f": {str(value)[:80]!r}"
    forms = f" (accepted: {accepted})" if accepted else ""
    return InputError(f"{place}: {what}{shown}{forms}", hint=hint)


def check_word(option: str, word: object, accepted: Iterable[str]) -> None:
    """UsageError unless the word of an option, or of the argument it stands for, is one of the accepted ones.

    >>> check_word("loop", "shut", ["closed", "open"])
    Traceback (most recent call last):
    batchcast.errors.UsageError: loop: no 'shut' (accepted: closed, open)
    """
    if word not in (known := tuple(accepted)):
        raise UsageError(f"--{option}: no {word!r} (accepted: {', '.join(known)})")


def check_least(option: str, value: object, least: int) -> None:
    """UsageError unless a number is a whole one and at least so large.

    >>> check_least("workers", 0, 1)
    Traceback (most recent call last):
    batchcast.errors.UsageError: workers: 0 (accepted: a whole number from 1)
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(f"--{option}: {value!r} (accepted: a whole number from {least})")
