"""Where the compiled kernels of this installation are kept, so that only the first command compiles."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path

from .output import say


def prepare() -> None:
    """Give numba a cache that can be written and that knows this very code; say so when it is still empty.

    numba notices a change in the file of a kernel but not in the kernels it calls, so the place is named by the state
    of all of them. A read-only installation is no obstacle: the cache lies with the user, else in a temporary folder.
    A cache named by the user (NUMBA_CACHE_DIR) is left alone.
    """
    if "NUMBA_CACHE_DIR" in os.environ:
        return
    name = f"kernels-{fingerprint():08x}"
    try:
        place = cache_home() / name
        fresh = not place.is_dir()
        place.mkdir(parents=True, exist_ok=True)
        fits = os.access(place, os.W_OK)
    except OSError:
        fits = False
    if not fits:
        home, place = place.parent, _private_place() / name
        fresh = not place.is_dir()
        place.mkdir(exist_ok=True)
        if fresh:
            say(
                f"note: {home} cannot be written: the kernels are kept in {place.parent} (XDG_CACHE_HOME names a place)"
            )
    if fresh:
        say("note: compiling the kernels, once for this installation (about half a minute)")
    os.environ["NUMBA_CACHE_DIR"] = str(place)


def _private_place() -> Path:
    """A directory in the temporary folder that nobody else can write to: what lies in it is run."""
    place = Path(tempfile.gettempdir()) / f"batchcast-{os.getuid()}"
    try:
        place.mkdir(mode=0o700)
    except FileExistsError:
        there = place.lstat()
        if not stat.S_ISDIR(there.st_mode) or there.st_uid != os.getuid() or there.st_mode & 0o022:
            return Path(tempfile.mkdtemp(prefix="batchcast-"))
    return place


def cache_home() -> Path:
    """XDG_CACHE_HOME/batchcast, else ~/.cache/batchcast."""
    named = os.environ.get("XDG_CACHE_HOME")
    return (Path(named) if named else Path.home() / ".cache") / "batchcast"


def fingerprint() -> int:
    """A number for the state of every module that holds kernels, the interpreter included."""
    from zlib import crc32

    root = Path(__file__).parent.parent
    rooms = ("formats", "schedule", "grid", "predict", "trace")
    state = [f"{sys.version} {root}"]
    for folder in sorted(f for room in rooms for f in (root / room, *(root / room).glob("*/"))):
        if folder.is_dir() and folder.name != "__pycache__":
            with os.scandir(folder) as entries:
                files = [(e.name, e.stat()) for e in entries if e.name.endswith(".py")]
            state += [f"{name} {stat.st_mtime_ns} {stat.st_size}" for name, stat in sorted(files)]
    return crc32("\n".join(state).encode())


def without_blas() -> None:
    """Let numba load its array functions without looking for scipy's BLAS, which costs a third of a second.

    No kernel here multiplies matrices. Only for this process, and undone at once.
    """
    blocked = "scipy.linalg" if "scipy" in sys.modules else "scipy"
    if blocked in sys.modules or "numba.np.arraymath" in sys.modules:
        return
    sys.modules[blocked] = None  # type: ignore[assignment]
    try:
        import numba.np.arraymath  # noqa: F401
    finally:
        del sys.modules[blocked]
