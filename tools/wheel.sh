#!/usr/bin/env bash
# Build the wheels of batchcast and of the papers, install them with each Python that is here (3.11 to 3.14) away from the checkout, and try it.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(realpath -s "$1")
root=$PWD
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
for distribution in . packages/papers; do
  "$python" -m build --no-isolation --outdir "$place/dist" "$distribution" > "$place/build.log" 2>&1 || { tail -n 30 "$place/build.log"; exit 1; }
done
wheel=("$place"/dist/batchcast-*.whl) papers=("$place"/dist/batchcast_papers-*.whl)

# Side by side: each compiles its own kernels, on one core.
try() {
  "$2" -m venv "$place/$1"
  "${python%/*}/uv" pip install --quiet --python "$place/$1/bin/python" -c "$root/constraints.txt" "${wheel[0]}[all]" "${papers[0]}" ||
    "$place/$1/bin/python" -m pip install --quiet --quiet --disable-pip-version-check -c "$root/constraints.txt" "${wheel[0]}[all]" "${papers[0]}"
  (cd "$place" && XDG_CACHE_HOME="$place/cache-$1" "$place/$1/bin/python" "$root/tools/smoke.py" "$place/$1")
}
ran=() tries=()
for version in 3.11 3.12 3.13 3.14; do
  found=$("$python" tools/pythons.py "$version")
  [ -n "$found" ] || { echo "wheel: no Python $version on this machine"; continue; }
  (set -e; try "$version" "$found") > "$place/$version.log" 2>&1 &
  ran+=("$version") tries+=("$!")
done
for k in "${!ran[@]}"; do
  wait "${tries[$k]}" || { echo "wheel: Python ${ran[$k]}"; tail -n 30 "$place/${ran[$k]}.log"; exit 1; }
done
echo "wheel: installed and tried with Python ${ran[*]}"
