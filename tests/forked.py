"""Runs the command line in a separate process, without importing all modules for every call.

A small server imports what every verb imports, once per test worker, and forks for each command; arguments,
environment, streams and exit code belong to the forked command. A test of the start-up itself (a first import, an early
signal) must start a new interpreter with `subprocess` instead.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SHARED = ("batchcast.cli.main", "numpy", "numba", "rich.console", "rich.table", "sqlalchemy", "msgspec", "scipy.stats")


def batchcast(
    *words: object, text: str | None = None, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `batchcast WORDS` with `text` as standard input; return its output and exit code."""
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder) / name for name in ("in", "out", "err")]
        streams[0].write_text(text or "")
        argv = ["batchcast", *map(str, words)]
        order = {"argv": argv, "streams": list(map(str, streams)), "cwd": str(cwd or Path.cwd())}
        server = _server()
        server.stdin.write(json.dumps({**order, "env": dict(os.environ if env is None else env)}) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        speaks = (env or os.environ).get("PYTHONIOENCODING", "utf-8")
        return subprocess.CompletedProcess(argv, code, *(path.read_text(speaks) for path in streams[1:]))


@functools.cache
def _server() -> Any:
    server = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(server.kill)
    return server


def _serve() -> None:
    """Fork for every line of stdin, and answer with a line that has the exit code (or minus the signal)."""
    import gc
    import importlib

    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as the command line sets it, so that a fork loses no thread
    for name in SHARED:
        importlib.import_module(name)
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _become(**json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _become(argv: list[str], streams: list[str], cwd: str, env: dict[str, str]) -> None:
    """Run the command in this process, and end the process with the command's exit code."""
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = argv
    for number, (path, mode) in enumerate(zip(streams, "rww")):
        os.dup2(os.open(path, os.O_RDONLY if mode == "r" else os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    speaks = env.get("PYTHONIOENCODING", "utf-8")  # a new interpreter reads this variable at its start
    own = [os.fdopen(k, mode, encoding=speaks, closefd=False) for k, mode in enumerate("rww")]
    sys.stdin, sys.stdout, sys.stderr = own
    from batchcast.__main__ import entry

    code: object = 0
    try:
        entry()
    except SystemExit as end:
        code = end.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    _serve()
