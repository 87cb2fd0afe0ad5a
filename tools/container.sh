#!/usr/bin/env bash
# What the container is built from, and with podman or buildah the container: tools/container.sh PYTHON FOLDER [BASE]. FOLDER
# becomes the context: Containerfile, the wheel of this checkout, and every wheel that it needs, so that nothing is fetched
# as it is built; requirements.txt has their hashes, and batchcast.cdx.json lists them. Without podman and buildah the context alone. BASE: another image than the Containerfile names.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(realpath -s "$1") folder=$(realpath -m "$2") base=${3:-}
rm -rf "$folder" && mkdir -p "$folder/wheels"
"$python" -m build --no-isolation --wheel --outdir "$folder/wheels" . > "$folder.log" 2>&1 || { tail -n 30 "$folder.log"; exit 1; }
cp constraints.txt "$folder/wheels/"
cp contrib/container/Containerfile "$folder/"
bash tools/hashes.sh "$python" "$folder/wheels/requirements.txt"
"$python" -m pip download --quiet --disable-pip-version-check --only-binary :all: --require-hashes --dest "$folder/wheels" \
  --requirement "$folder/wheels/requirements.txt"
"$python" tools/sbom.py "$folder/batchcast.cdx.json" "$folder"/wheels/*.whl
echo "$folder: $(find "$folder/wheels" -name '*.whl' | wc -l) wheels, $(du -sm "$folder" | cut -f1) MB"
words=(--build-arg PIP_NO_INDEX=1 --tag batchcast)
[ -z "$base" ] || words+=(--build-arg "BASE=$base")
if command -v podman > /dev/null; then
  podman build "${words[@]}" "$folder"
elif command -v buildah > /dev/null; then
  buildah build "${words[@]}" "$folder"
else
  echo "neither podman nor buildah here: podman build ${words[*]} $folder"
fi
