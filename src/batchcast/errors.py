"""The errors a person is meant to read, one exit code each.

A message names the place (file and line), the value that was found, the forms that are accepted and the next thing
to try. Anything else that escapes is a defect of batchcast, not of its input.
"""

from __future__ import annotations


class BatchcastError(Exception):
    """Something failed and the reason is known; exit code 1."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
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
