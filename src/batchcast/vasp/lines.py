"""Lines of fixed meaning: what POSCAR and KPOINTS share, with errors that name file, line and value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ..errors import InputError, input_error

Number = TypeVar("Number", int, float)


def line_at(lines: Sequence[str], at: int, path: str, what: str) -> str:
    """Line `at` (from 0) without its margins; it must be there and not be blank.

    >>> line_at(["a comment", " 0 "], 1, "KPOINTS", "the number of k-points")
    '0'
    """
    if at >= len(lines):
        raise truncated(path, len(lines), f"before {what}")
    text = lines[at].strip()
    if not text:
        raise input_error(path, f"blank line where {what} should be", line=at + 1)
    return text


def floats_at(lines: Sequence[str], at: int, path: str, what: str, at_least: int) -> list[float]:
    """The numbers line `at` begins with, at least so many; Fortran's 1.0D0 too, and remarks after them."""
    return _numbers(lines, at, path, what, at_least, _fortran)


def ints_at(lines: Sequence[str], at: int, path: str, what: str, at_least: int) -> list[int]:
    """The whole numbers line `at` begins with, at least so many."""
    return _numbers(lines, at, path, what, at_least, int)


def truncated(path: str, line: int, where: str) -> InputError:
    """The error of a file that ends too early."""
    return input_error(path, f"ends {where}", line=line, hint="the file is truncated: copy it again")


def _fortran(word: str) -> float:
    return float(word.replace("d", "e").replace("D", "E"))


def _numbers(
    lines: Sequence[str], at: int, path: str, what: str, at_least: int, read: Callable[[str], Number]
) -> list[Number]:
    numbers: list[Number] = []
    for word in line_at(lines, at, path, what).split():
        try:
            numbers.append(read(word))
        except ValueError:
            break
    if len(numbers) < at_least:
        kind = "whole number" if read is int else "number"
        accepted = f"{at_least} {kind}{'s' if at_least > 1 else ''}"
        raise input_error(path, f"{what} expected", line=at + 1, value=lines[at].strip(), accepted=accepted)
    return numbers
