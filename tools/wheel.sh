#!/usr/bin/env bash
# Build the wheel, install it with each Python that is here (3.11 to 3.13) away from the checkout, and try it.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(realpath -s "$1")
root=$PWD
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"$python" -m build --no-isolation --outdir "$place/dist" . > "$place/build.log" 2>&1 || { tail -n 30 "$place/build.log"; exit 1; }
wheel=("$place"/dist/batchcast-*.whl)
ran=()
for version in 3.11 3.12 3.13; do
  found=$("$python" tools/pythons.py "$version")
  [ -n "$found" ] || { echo "wheel: no Python $version on this machine"; continue; }
  "$found" -m venv "$place/$version"
  "$place/$version/bin/python" -m pip install --quiet --quiet --disable-pip-version-check -c "$root/constraints.txt" "${wheel[0]}[all]"
  (cd "$place" && XDG_CACHE_HOME="$place/cache-$version" "$place/$version/bin/python" "$root/tools/smoke.py" "$place/$version")
  ran+=("$version")
done
echo "wheel: installed and tried with Python ${ran[*]}"
