# SPDX-License-Identifier: Apache-2.0
"""Records of arrays: one structured entry contains the address and length of each array, so that a kernel needs only
one argument.
"""

from __future__ import annotations

import numpy as np


def array_fields(*names: str) -> list[tuple[str, str]]:
    """Return the fields of a record's dtype, for arrays with the given names.

    >>> array_fields("jobs")
    [('jobs', 'i8'), ('jobs_size', 'i8')]
    """
    return [field for name in names for field in ((name, "i8"), (f"{name}_size", "i8"))]


def point_to(records: np.ndarray, **arrays: np.ndarray) -> None:
    """Write the addresses of arrays into a structured array of shape (1,); its owner must keep a reference to the
    arrays.

    >>> records = np.zeros(1, array_fields("jobs"))
    >>> point_to(records, jobs=np.zeros(3)); int(records["jobs_size"][0])
    3
    """
    for name, array in arrays.items():
        if not array.flags.c_contiguous:
            raise ValueError(f"{name} is not contiguous")
        records[name] = array.__array_interface__["data"][0]
        records[f"{name}_size"] = len(array)


def enlarged(array: np.ndarray, size: int) -> np.ndarray:
    """Return a copy of the array with `size` entries; new entries are zero.

    >>> enlarged(np.array([1, 2]), 4).tolist()
    [1, 2, 0, 0]
    """
    wider = np.zeros((size, *array.shape[1:]), array.dtype)
    wider[: len(array)] = array
    return wider
