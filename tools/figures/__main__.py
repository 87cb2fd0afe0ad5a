"""Run the commands behind the figures, and report pages that differ: `python -m tools.figures`.

Without names it runs every command of less than two minutes of processor time. Tables between marks are rewritten in
the pages; a figure in a sentence is only reported, because the sentence may no longer be true.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import papers, studies
from .files import SHARED, FigureError, Study, content, keep, missing_logs, read_files, run_study
from .pages import faults, pages, unbound, with_blocks

STUDIES: tuple[Study, ...] = (*studies.STUDIES, *papers.STUDIES)
NEAR = 1e-3
"""Relative difference that is accepted between machines."""


def check(files: Mapping[str, Mapping[str, Any]], studies: Sequence[Study] = STUDIES) -> list[str]:
    """Return what is wrong with pages and files, a sentence each; needs no log."""
    found = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        found += [*faults(page, text, files), *unbound(page, text)]
    known = {study.name: study for study in studies}
    for name, file in files.items():
        if name not in known:
            found.append(f"docs/figures/{name}.json: no study of this name in tools/figures/studies.py")
        elif file["commands"] != list(known[name].commands):
            found.append(f"docs/figures/{name}.json was written by other commands: python -m tools.figures {name}")
    return found


def moved(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each value that differs from the file."""
    for name, value in old["values"].items():
        now = new["values"].get(name)
        numbers = all(isinstance(one, int | float) for one in (value, now))
        if not (math.isclose(value, now, rel_tol=NEAR) if numbers else value == now):
            yield f"{name} was {value!r} and is {now!r}"
    for name, lines in old["blocks"].items():
        if lines != new["blocks"].get(name):
            yield f"the lines of {name} are others"


def sample(studies: Sequence[Study], count: int, seed: int) -> list[Study]:
    """Draw studies at random, from the seed, among those that take minutes on this machine and print the same values
    each time."""
    able = [one for one in studies if one.rerun == "minutes" and one.exact and not missing_logs(one)]
    return random.Random(seed).sample(able, min(count, len(able)))


def rerun(studies: Sequence[Study], files: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Run each study and compare it with its file, which is not changed."""
    found = []
    for study in studies:
        print(f"{study.name}: {'; '.join(study.commands)}", flush=True)
        new = run_study(study)
        found += [f"{study.name}: {what}" for what in moved(files.get(study.name, new), new)]
    return found


def write(studies: Sequence[Study], printed: Path | None) -> list[str]:
    """Run each study, or read its printed output, and write its file; return a sentence per failure."""
    failed = []
    for study in studies:
        try:
            if printed is not None:
                text = printed.read_text(encoding="utf-8")
                given = json.loads(text) if study.json and text.startswith("{") else text
                new = content(study, study.read([given], printed.parent), None)
            else:
                new = run_study(study)
        except FigureError as error:
            failed.append(str(error))
            continue
        old = read_files().get(study.name)
        keep(study.name, new)
        print(f"{study.name}: {len(new['values'])} values, {new['cpu_seconds']} s", flush=True)
        for what in moved(old, new) if old and study.exact else ():
            print(f"  {what}")
    return failed


def write_pages() -> None:
    """Write the tables of the files into the pages."""
    files = read_files()
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (new := with_blocks(text, files)) != text:
            page.write_text(new, encoding="utf-8")
            print(f"{page.name}: tables written anew")


def chosen(given: argparse.Namespace) -> list[Study]:
    """Return the studies to run; studies without logs are reported and left out."""
    by_name = {study.name: study for study in STUDIES}
    if unknown := [name for name in given.names if name not in by_name]:
        raise FigureError(f"no study {', '.join(unknown)} (accepted: {', '.join(by_name)})")
    if given.names:
        return [by_name[name] for name in given.names]
    able = []
    for study in STUDIES:
        if study.rerun == "lab" or (study.rerun == "long" and not given.all):
            print(f"{study.name}: left out: {'--all runs it' if study.rerun == 'long' else 'it needs the lab'}")
        elif missing := missing_logs(study):
            print(f"{study.name}: left out: no {', '.join(missing)} in {SHARED}")
        else:
            able.append(study)
    return able


def main(words: Sequence[str] | None = None) -> int:
    """Print what differs; return 1 if a page or a value does."""
    parser = argparse.ArgumentParser(prog="python -m tools.figures", description=__doc__)
    parser.add_argument("names", nargs="*", help="studies to run (default: all that take less than two minutes)")
    parser.add_argument("--all", action="store_true", help="run those that take longer as well")
    parser.add_argument("--check", action="store_true", help="run nothing: compare pages with files")
    parser.add_argument("--sample", type=int, metavar="N", help="run N studies, drawn by --seed, and compare")
    parser.add_argument("--seed", type=int, default=0, help="of the draw of --sample")
    parser.add_argument("--printed", type=Path, help="a file with what the study's command printed elsewhere")
    given = parser.parse_args(words)
    try:
        if given.sample is not None:
            found = rerun(sample(STUDIES, given.sample, given.seed), read_files())
        else:
            found = []
            if not given.check:
                found = write(chosen(given), given.printed)
                write_pages()
            found += [one for one in check(read_files()) if not given.names or any(name in one for name in given.names)]
    except FigureError as error:
        found = [str(error)]
    print("\n".join(found) if found else "pages and figures agree")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
