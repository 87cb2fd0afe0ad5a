"""List the packages of a build as CycloneDX 1.5 components in JSON: `python -m tools.sbom OUT PATH...`.

A PATH is a folder of installed packages (`site-packages`) or a wheel, whose SHA-256 is included. With `--check` nothing
is written: the program ends with 1 and prints the difference if the list in OUT does not match the paths. It needs only
the standard library, so that any Python can check an installed package.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any


def components(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Return one entry per package, by name; end the program if a path has none."""
    found: dict[str, dict[str, Any]] = {}
    for path in paths:
        here = list(distributions(path=[str(path)]))
        if not here:
            raise SystemExit(f"{path}: holds no installed package (accepted: a site-packages folder, a wheel)")
        for one in here:
            entry = _component(one)
            if path.is_file():
                entry["hashes"] = [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}]
            found[entry["bom-ref"]] = entry
    return [found[ref] for ref in sorted(found)]


def _component(one: Distribution) -> dict[str, Any]:
    """Return the entry of one package: name as normalized by package indexes, version, licence."""
    name = re.sub(r"[-_.]+", "-", one.metadata["Name"]).lower()
    purl = f"pkg:pypi/{name}@{one.version}"
    entry: dict[str, Any] = {
        "type": "application" if name == "batchcast" else "library",
        "bom-ref": purl, "name": name, "version": one.version, "purl": purl,
    }  # fmt: skip
    if expression := one.metadata.get("License-Expression"):
        entry["licenses"] = [{"expression": expression}]
    elif (text := one.metadata.get("License")) and "\n" not in text:
        entry["licenses"] = [{"license": {"name": text}}]
    return entry


def document(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the whole list. Its number depends on the content, its date on SOURCE_DATE_EPOCH if set."""
    digest = hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()
    at = os.environ.get("SOURCE_DATE_EPOCH")
    when = datetime.fromtimestamp(int(at), UTC) if at else datetime.now(UTC)
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}",
        "metadata": {"timestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ")}, "components": entries,
    }  # fmt: skip


def differences(listed: Iterable[dict[str, Any]], there: Iterable[dict[str, Any]]) -> list[str]:
    """Describe entries in only one of both lists, or with different digests."""
    one, other = ({entry["bom-ref"]: entry for entry in entries} for entries in (listed, there))
    words = [f"{ref}: listed, not there" for ref in one.keys() - other.keys()]
    words += [f"{ref}: there, not listed" for ref in other.keys() - one.keys()]
    hashed = (ref for ref in one.keys() & other.keys() if "hashes" in one[ref] and "hashes" in other[ref])
    words += [
        f"{ref}: another file than the one listed" for ref in hashed if one[ref]["hashes"] != other[ref]["hashes"]
    ]
    return sorted(words)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args(words)
    there = components(given.paths)
    if not given.check:
        given.out.write_text(json.dumps(document(there), indent=1) + "\n", encoding="utf-8")
        print(f"{given.out}: {len(there)} packages")
        return 0
    wrong = differences(json.loads(given.out.read_text(encoding="utf-8"))["components"], there)
    print("\n".join(wrong) or f"{given.out}: all {len(there)} packages are as listed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
