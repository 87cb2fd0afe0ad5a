#!/usr/bin/env bash
# What a build installs, each file with its SHA-256, for `pip install --require-hashes`: tools/hashes.sh PYTHON FILE.
# Versions are those of constraints.txt. The digests come from the package index at build time and are not committed.
set -euo pipefail
cd "$(dirname "$0")/.."
"$1" -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
  --no-emit-index-url --no-emit-find-links --extra learn --extra parquet --extra serve --extra store \
  --constraint constraints.txt -o "$2" pyproject.toml
