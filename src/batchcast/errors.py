# SPDX-License-Identifier: Apache-2.0
"""The exceptions whose messages are written for users, each with an exit code.

A message names the location (file and line), the rejected value, the accepted forms and what to do next. Any other
exception that reaches the user is a defect of batchcast and not of the user's input.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_says_flags = False
_FLAG = re.compile(r"(?<![\w-])--([a-z][a-z-]*[a-z])( (?=[A-Z0-9]))?")
_ARGUMENTS = {"policy": "policies", "from": "since", "to": "until"}


@contextmanager
def flags_in_messages() -> Iterator[None]:
    """A context in which messages name command-line flags (`--procs-total`), not Python arguments (`procs_total`)."""
    global _says_flags
    before, _says_flags = _says_flags, True
    try:
        yield
    finally:
        _says_flags = before


def as_arguments(text: str) -> str:
    """Replace the command-line flags in a message by the names of the Python arguments.

    >>> as_arguments("--default-request: not 'x'; try --procs-total N, or --procs-total peak")
    "default_request: not 'x'; try procs_total=N, or procs_total peak"
    """

    def argument(match: re.Match[str]) -> str:
        name = _ARGUMENTS.get(match[1], match[1].replace("-", "_"))
        return f"{name}=" if match[2] else name

    return _FLAG.sub(argument, text)


def worded(text: str) -> str:
    """Return a message in the form for its reader: with flags on the command line, with names of Python arguments
    otherwise.

    >>> worded("no zone: --timezone NAME says where the cluster stands")
    'no zone: timezone=NAME says where the cluster stands'
    """
    return text if _says_flags else as_arguments(text)


class BatchcastError(Exception):
    """Base class: an operation failed for a known reason. Exit code 1. The message says what is wrong, where, and what
    is accepted; the hint says what to try next."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        message, hint = worded(message), worded(hint)
        super().__init__(message if not hint else f"{message}\n  try: {hint}")
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        return (partial(type(self), hint=self.hint), (self.message,))


class InputError(BatchcastError):
    """A log, a file or a value in a file cannot be used. Exit code 1."""


class UsageError(BatchcastError):
    """An option, a name or a parameter does not have an accepted form. Exit code 2."""

    exit_code = 2


class WrongCluster(UsageError):
    """The batch system that answers belongs to another cluster than the jobs in the store. Exit code 2."""


class Refused(InputError):
    """The site's privacy rules do not let this user see the requested data. Exit code 1."""


class NoAnswer(BatchcastError):
    """The data to answer a valid question is missing (unknown job, too little job history). Exit code 3."""

    exit_code = 3


class NoStore(NoAnswer):
    """There is no store at the given path, because no collector has written one. Exit code 3."""


class Unreachable(BatchcastError):
    """A scheduler, a database or a service does not answer. Exit code 4."""

    exit_code = 4


def how_to_install(extra: str, only: str = "") -> str:
    """Return the command that installs an optional part of batchcast, or only packages that start with `only`."""
    # In a checkout, the command reinstalls the checkout with the extra. Outside a checkout, the command names the
    # required packages themselves, because batchcast is not on a package index and `pip install batchcast[EXTRA]` would
    # fail.
    import json
    import shlex
    import sys
    from importlib.metadata import PackageNotFoundError, distribution
    from importlib.util import find_spec

    pip = f"{shlex.quote(sys.executable)} -m pip install"
    if find_spec("pip") is None:  # `uv venv` creates environments without pip
        pip = f"uv pip install --python {shlex.quote(sys.executable)}"
    try:
        installed = distribution("batchcast")
    except PackageNotFoundError:
        return f"{pip} -e '.[{extra}]', in the checkout"
    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable"):
        checkout = str(origin["url"]).removeprefix("file://")
        return f"{pip} -e {shlex.quote(f'{checkout}[{extra}]')}"
    needs = [text.partition(";") for text in installed.requires or ()]
    wanted = [name.strip() for name, _, when in needs if re.search(rf"extra == ['\"]{extra}['\"]", when)]
    wanted = [name for name in wanted if name.startswith(only)]
    return f"{pip} {shlex.join(wanted or [f'batchcast[{extra}]'])}"


def check_takes(method: object, owner: str, form: str) -> None:
    """Raise UsageError if a user's method cannot be called with the given parameters.

    The check runs before the first call, so that a wrong signature is reported at once.

    >>> check_takes([], "list", "append(job, at)")
    Traceback (most recent call last):
    batchcast.errors.UsageError: list.append takes (object, /) (accepted: append(job, at))
    """
    from inspect import signature

    name, _, parameters = form.rstrip(")").partition("(")
    try:
        called = getattr(method, name)
        takes = signature(called)
    except ValueError:  # some functions written in C have no signature that Python can read
        return
    try:
        takes.bind(*parameters.split(", "))
    except TypeError:
        raise UsageError(f"{owner}.{name}{standing_at(called)} takes {takes} (accepted: {form})") from None


def standing_at(method: object) -> str:
    """Return the file and line in which a user's function is defined, as ` (mine.py, line 7)`; empty for functions
    written in C and for batchcast's own functions.

    >>> standing_at(len)
    ''
    """
    code = getattr(method, "__code__", None)
    if code is None or code.co_filename.startswith(__file__.rpartition("/")[0]):
        return ""
    return f" ({code.co_filename.rpartition('/')[2]}, line {code.co_firstlineno})"


def says_arguments(call: Callable[P, R], name: str = "") -> Callable[P, R]:
    """Wrap a function so that wrong arguments raise a UsageError, whose message lists the accepted arguments.

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
            _check_arguments(call, name or call.__name__, args, given)
            raise

    return checked


def _check_arguments(
    call: Callable[..., object], name: str, args: tuple[object, ...], given: dict[str, object]
) -> None:
    """Raise UsageError, with the accepted names and the closest match, if the arguments do not fit the signature."""
    from difflib import get_close_matches
    from inspect import Parameter, signature

    expected = signature(call)
    try:
        expected.bind(*args, **given)
    except TypeError as error:
        accepted = [parameter for parameter in expected.parameters if parameter != "self"]
        any_name = any(p.kind is Parameter.VAR_KEYWORD for p in expected.parameters.values())
        unexpected = [] if any_name else [argument for argument in given if argument not in accepted]
        what = f"got an unexpected keyword argument {unexpected[0]!r}" if unexpected else str(error)
        suggestions = [best for argument in unexpected for best in get_close_matches(argument, accepted, 1)]
        hint = f"did you mean {suggestions[0]}?" if suggestions else ""
        raise UsageError(f"{name} {what} (accepted: {', '.join(accepted)})", hint=hint) from None


def raised_outside(error: Exception, function: str, hint: str = "") -> BatchcastError:
    """Turn an exception from user code into a BatchcastError that names the user's file and line; a BatchcastError is
    returned unchanged.

    >>> print(raised_outside(ZeroDivisionError("division by zero"), "Mine.predict"))
    Mine.predict raised ZeroDivisionError: division by zero
    """
    from traceback import walk_tb

    if isinstance(error, BatchcastError):
        return error
    ours = __file__.rpartition("/")[0]
    lines = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    user_lines = [(file, line) for file, line in lines if not file.startswith(ours) and "importlib" not in file]
    # The location is the last line in the first file of user code, because deeper calls may be in libraries such as
    # NumPy.
    last = [(file, line) for file, line in user_lines if file == user_lines[0][0]][-1:]
    location = "".join(f" ({file.rpartition('/')[2]}, line {line})" for file, line in last)
    return BatchcastError(f"{function} raised {type(error).__name__}: {error}{location}{_attributes(error)}", hint=hint)


def is_of_project(module: str) -> bool:
    """Return whether a module belongs to batchcast or to another distribution of this project, `batchcast_...`.

    >>> is_of_project("batchcast.predict"), is_of_project("batchcast_papers.su"), is_of_project("mine.batchcast")
    (True, True, False)
    """
    return module.partition(".")[0].partition("_")[0] == __package__


def _attributes(error: Exception) -> str:
    """Return a text with the attributes of a batchcast object if user code read a missing attribute of the object,
    else an empty text."""
    target = getattr(error, "obj", None)
    if not isinstance(error, AttributeError) or not is_of_project(type(target).__module__):
        return ""
    names = [name for name in dir(target) if not name.startswith("_") and not hasattr(tuple, name)]
    return f" (a {type(target).__name__} has: {', '.join(names)})"


def input_error(
    path: str, problem: str, *, line: int | None = None, value: object = None, accepted: str = "", hint: str = ""
) -> InputError:
    """Build an `InputError` from its parts: location, problem, value, accepted forms and next step.

    >>> print(input_error("a.swf", "run time is not a number", line=7, value="12x", accepted="seconds"))
    a.swf:7: run time is not a number: '12x' (accepted: seconds)
    """
    place = path if line is None else f"{path}:{line}"
    shown = "" if value is None else f": {str(value)[:80]!r}"
    forms = f" (accepted: {accepted})" if accepted else ""
    return InputError(f"{place}: {problem}{shown}{forms}", hint=hint)


def check_word(option: str, value: object, accepted: Iterable[str]) -> None:
    """Raise UsageError if the value of an option is not among the accepted words.

    >>> check_word("loop", "shut", ["closed", "open"])
    Traceback (most recent call last):
    batchcast.errors.UsageError: loop: 'shut' is not a known word (accepted: closed, open)
    """
    if value not in (words := tuple(accepted)):
        raise UsageError(f"--{option}: {value!r} is not a known word (accepted: {', '.join(words)})")


def check_least(option: str, value: object, least: int) -> None:
    """Raise UsageError if the value of an option is not a whole number of at least `least`.

    >>> check_least("workers", 0, 1)
    Traceback (most recent call last):
    batchcast.errors.UsageError: workers: 0 (accepted: a whole number from 1)
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(f"--{option}: {value!r} (accepted: a whole number from {least})")
