# SPDX-License-Identifier: Apache-2.0
"""The compiled scanner of SWF lines. The scanner converts bytes to columns and reports the position of malformed
lines."""

from __future__ import annotations

import numpy as np

from ..compiled import kernel

_TEN = 10.0 ** np.arange(16)
_NEWLINE, _SPACE, _TAB, _RETURN, _SEMICOLON, _MINUS, _DOT, _ZERO, _NINE = 10, 32, 9, 13, 59, 45, 46, 48, 57


@kernel
def scan_lines(
    data: np.ndarray, start: int, destinations: np.ndarray, numbers: np.ndarray, names: np.ndarray, odd: np.ndarray
) -> tuple[int, int, int, int]:
    """Scan lines of SWF from the byte `start` until the end of the data, or until an output array is full; return next
    start, rows, odd lines and lines scanned."""
    # `data` is uint8 and must end with a newline. Field k goes to row `destinations[k]` of `numbers` (float64; -1
    # becomes NaN) or, if that is negative, to row `-destinations[k] - 1` of `names` (int64; -1 stays). `odd` (int64,
    # shape (capacity, 4)) receives begin, end, row and line number from 0 of each comment (row -1) and of each line
    # that needs a closer look.
    #
    # Each line takes a row, except blank lines and comments. A line needs a closer look if it has fewer than 18 fields,
    # a field that is not a plain decimal number of at most 15 digits, a negative number other than -1, a fraction in a
    # field of names, or no job number or submit time (rows 0 of `names` and `numbers`). Fields after the 18th are
    # skipped. A value is digits < 2**53 divided by a power of ten, rounded once, so it equals what float() returns.
    size, capacity, odd_capacity = len(data), numbers.shape[1], odd.shape[0]
    i, rows, odds, lines = start, 0, 0, 0
    while i < size and rows < capacity and odds < odd_capacity:
        begin = i
        while data[i] == _SPACE or data[i] == _TAB or data[i] == _RETURN:
            i += 1
        if data[i] == _NEWLINE:
            i += 1
            lines += 1
            continue
        comment = data[i] == _SEMICOLON
        good = not comment
        field = 0
        while good and field < 18:
            negative = data[i] == _MINUS
            if negative:
                i += 1
            whole, digits, decimals = 0, 0, 0
            while _ZERO <= data[i] <= _NINE:
                if digits < 16:
                    whole = whole * 10 + (data[i] - _ZERO)
                digits += 1
                i += 1
            if data[i] == _DOT:
                i += 1
                while _ZERO <= data[i] <= _NINE:
                    if digits < 16:
                        whole = whole * 10 + (data[i] - _ZERO)
                    digits += 1
                    decimals += 1
                    i += 1
            ended = data[i] == _SPACE or data[i] == _TAB or data[i] == _RETURN or data[i] == _NEWLINE
            if not ended or digits == 0 or digits > 15:
                good = False
                break
            value = whole / _TEN[decimals]
            if negative and value != 0.0:
                value = -value
            to = destinations[field]
            if value < 0.0 and value != -1.0:
                good = False
            elif to >= 0:
                if value == -1.0:
                    good = to != 0
                    value = np.nan
                numbers[to, rows] = value
            else:
                if value != np.floor(value) or (to == -1 and value < 0):
                    good = False
                names[-to - 1, rows] = np.int64(value)
            field += 1
            while data[i] == _SPACE or data[i] == _TAB or data[i] == _RETURN:
                i += 1
            if data[i] == _NEWLINE and field < 18:
                good = False
        while data[i] != _NEWLINE:
            i += 1
        if not good:
            odd[odds, 0], odd[odds, 1] = begin, i
            odd[odds, 2], odd[odds, 3] = -1 if comment else rows, lines
            odds += 1
        if not comment:
            rows += 1
        i += 1
        lines += 1
    return i, rows, odds, lines
