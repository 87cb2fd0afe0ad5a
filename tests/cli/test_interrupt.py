"""Tests that Ctrl-C ends any command with exit code 130 and removes half-written files."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ENDLESS = """
import sys
from pathlib import Path
from batchcast.cli.interrupt import end, end_on_interrupt
from batchcast.trace.whole_file import folder
from batchcast.trace.whole_file import whole_file
{kernel}

end_on_interrupt()
with folder("report") as place, whole_file("log.swf") as path:
    (place / "result.json").write_text("half")
    path.write_text("half")
    forever(2)  # compiles
    try:
        print("ready", flush=True)
        forever(2**62)
    except KeyboardInterrupt:  # it came before the kernel had begun
        end()
"""
KERNEL = """
import numba

@numba.njit(nogil=True)
def forever(n):
    x = 1
    for k in range(n):
        x = (x * 6364136223846793005 + k) % 1000003
    return x
"""
SWALLOWED = """
import signal
signal.signal(signal.SIGINT, lambda *_: None)

def forever(n):
    while n > 2:
        n += 1
"""


@pytest.mark.parametrize("kernel", [KERNEL, SWALLOWED], ids=["compiled code", "an interrupt that is swallowed"])
def test_nothing_holds_it_up_and_nothing_half_written_stays(kernel: str, tmp_path: Path) -> None:
    code = ENDLESS.format(kernel=kernel)
    child = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, preexec_fn=_listening)  # fmt: skip
    try:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == 130
    assert "interrupted; nothing was left half written" in said
    assert list(tmp_path.iterdir()) == []


def test_a_command_at_work_ends_with_130(tmp_path: Path) -> None:
    """The command reads its log from a pipe that nobody writes to, so it runs until it is interrupted."""
    os.mkfifo(tmp_path / "log")
    line = f"{shlex.quote(sys.executable)} -m batchcast info - < log"
    child = subprocess.Popen(["sh", "-c", f"exec {line}"], cwd=tmp_path, stderr=subprocess.PIPE,
                             text=True, preexec_fn=_listening)  # fmt: skip
    try:
        writer = os.open(tmp_path / "log", os.O_WRONLY)
        # more than a pipe holds, so the write returns only when the command reads
        os.write(writer, b"; a comment\n" * 50_000)
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=60)
        os.close(writer)
    finally:
        child.kill()
    assert child.returncode == 130
    assert "Traceback" not in said


@pytest.mark.parametrize("place", ["destructor", "callback"])
def test_an_interrupt_that_python_would_ignore_ends_the_command_without_a_traceback(place: str) -> None:
    """Like llvmlite's destructors and callbacks, which run while a kernel is compiled."""
    code = f"""
import ctypes, os, signal
from batchcast.cli.interrupt import end_on_interrupt
end_on_interrupt()

def interrupted(*_):
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):
        pass
    return 0

class Object:
    __del__ = interrupted

if {place!r} == "destructor":
    Object()
else:
    ctypes.CFUNCTYPE(ctypes.c_int)(interrupted)()
print("goes on", flush=True)
signal.pause()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, preexec_fn=_listening)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted; nothing was left half written\n")


def _listening() -> None:
    """A test run in the background ignores SIGINT, and its child processes inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    from batchcast.trace.whole_file import UNFINISHED, whole_file

    place, link = tmp_path / "a.txt", tmp_path / "link"
    place.write_text("old")
    link.symlink_to(place)

    def fail() -> None:
        with whole_file(link) as path:
            path.write_text("half")
            assert {path} == UNFINISHED
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (place.read_text(), UNFINISHED) == ("old", set())
    with whole_file(link) as path:
        path.write_text("new")
    assert link.is_symlink()
    assert place.read_text() == "new"
    with whole_file(os.devnull) as path:
        path.write_text("gone")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.txt", "link"]


@pytest.mark.parametrize(
    ("before", "words", "code", "said"),
    [
        ("atexit.register(print, 'at the end')", ["--version"], 0, "at the end"),
        ("atexit.register(print, 'at the end')", ["simulate"], 2, "at the end"),
        ("threading.Thread(target=lambda: print(sys.stdin.read())).start()", ["--version"], 0, "from a thread"),
    ],
)
def test_a_command_ends_with_all_that_was_to_be_done(before, words, code, said):
    script = f"import atexit, sys, threading; {before}; from batchcast.__main__ import entry; entry()"
    done = subprocess.run(
        [sys.executable, "-c", script, *words], input="from a thread", capture_output=True, text=True, check=False
    )
    assert (done.returncode, said in done.stdout.splitlines()) == (code, True)


def test_a_profiler_gets_to_its_table():
    command = [sys.executable, "-m", "cProfile", "-m", "batchcast", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "function calls" in done.stdout
