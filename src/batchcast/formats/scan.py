# SPDX-License-Identifier: Apache-2.0
"""The compiled scanner of SWF lines: bytes in, columns out; malformed lines are only reported by position."""

from __future__ import annotations

import numpy as np

from ..compiled import kernel

_TEN = 10.0 ** np.arange(16)
_NEWLINE, _SPACE, _TAB, _RETURN, _SEMICOLON, _MINUS, _DOT, _ZERO, _NINE = 10, 32, 9, 13, 59, 45, 46, 48, 57


@kernel
def scan_lines(
    data: np.ndarray, start: int, place: np.ndarray, numbers: np.ndarray, names: np.ndarray, odd: np.ndarray
) -> tuple[int, int, int, int]:
    """Scan `data` (uint8, ends in a newline) from `start`; returns (next start, rows, odd lines, lines read).

    Field k of a line goes to numbers[place[k]] (float64, -1 becomes NaN) or, where place[k] < 0, to
    names[-place[k] - 1] (int64, -1 stays). Every line but a blank or comment one takes a row. `odd` receives (begin,
    end, row, line counted from 0) of each comment (row -1) and of each line that needs a closer look: fewer than 18
    fields, anything but plain decimal numbers of at most 15 digits, a negative number other than -1, a fraction where
    a name is due, a job number or submit time (rows 0 of names and numbers) that is missing. Stops early when the rows
    of `numbers` or of `odd` are used up. Fields past the 18th are only required to end. O(bytes), exact decimals:
    digits < 2**53 over a power of ten are rounded once, as float() rounds them.
    """
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
            to = place[field]
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
